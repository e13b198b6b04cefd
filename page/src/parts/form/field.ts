/** A field of a form. Its description comes from a driver, a setting or the page itself. */
export interface FieldDescription {
  name: string
  kind: FieldKind
  label: string
  help?: string
  required?: boolean
  /** An example of its value. */
  placeholder?: string
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

/** Return the fault of a value; null if it may be sent. The service checks it again. */
export function findFault({ kind, required, options }: FieldDescription, value: string): FieldFault | null {
  if (value.trim() === '') return required && kind !== 'boolean' ? 'missing' : null
  if (kind === 'number' && !/^-?\d+(\.\d+)?$/.test(value.trim())) return 'number'
  if (kind === 'select' && options?.every((option) => option.value !== value)) return 'choice'
  return null
}
