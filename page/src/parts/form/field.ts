/** What a form asks for, wherever the description comes from: a driver, a setting, the page itself. */
export interface FieldDescription {
  name: string
  kind: FieldKind
  label: string
  help?: string
  required?: boolean
  /** Of a select, in order. */
  options?: readonly Choice[]
}

export type FieldKind = 'text' | 'secret' | 'number' | 'boolean' | 'select' | 'long' | 'secretLong'

export interface Choice {
  value: string
  text: string
}

/** The values of a form by the names of its fields; all are texts, a boolean is 'true' or 'false'. */
export type FieldValues = Record<string, string>

export type FieldFault = 'missing' | 'number' | 'choice'

/** What is wrong with a value, null when it may be sent. The service has the last word. */
export function findFault({ kind, required, options }: FieldDescription, value: string): FieldFault | null {
  if (value.trim() === '') return required && kind !== 'boolean' ? 'missing' : null
  if (kind === 'number' && !/^-?\d+(\.\d+)?$/.test(value.trim())) return 'number'
  if (kind === 'select' && options?.every((one) => one.value !== value)) return 'choice'
  return null
}
