import type { ApiClient } from '../../../api/client'
import type { SettingRow } from '../../../api/schema'
import type { FieldDescription, FieldKind } from '../../../parts/form/field'
import { formatChoice, formatHelp, formatLabel } from '../../../text/labels'
import type { Language } from '../../../text/language.svelte'
import { isSecret } from '../secrets'

const KINDS: Record<string, FieldKind> = { bool: 'boolean', number: 'number', select: 'select', text: 'long' }

export function listSettings(api: ApiClient, groups: readonly number[]): Promise<SettingRow[]> {
  return api.call('get', '/api/admin/setting/list', { query: { groups: groups.join() } })
}

export function listDefaults(api: ApiClient, groups: readonly number[]): Promise<SettingRow[]> {
  return api.call('post', '/api/admin/setting/default', { query: { groups: groups.join() } })
}

/** Return a setting as a field. */
export function describe(language: Language, { key, type, options, help }: SettingRow): FieldDescription {
  const kind = type === 'string' && isSecret(key) ? 'secret' : (KINDS[type] ?? 'text')
  const field = { name: key, kind, label: formatLabel(language, key), help: formatHelp(language, help) }
  if (kind !== 'select') return field
  const choices = options.split(',').map((choice) => ({ value: choice, text: formatChoice(language, choice) }))
  return { ...field, options: [{ value: '', text: '–' }, ...choices] }
}

/** A value as the form has it: booleans are stored in several ways. */
export function readValue({ type, value }: SettingRow): string {
  return type === 'bool' ? String(value === 'true' || value === '1') : value
}

/** The setting that the service refused and why, where its message tells. */
export function parseRefusal(message: string): { key: string; reason: string } | null {
  const match = /^(?:failed to execute hook on |setting \[)(\w+)\]?: ([^\n]*)/.exec(message)
  return match?.[1] && match[2] ? { key: match[1], reason: match[2] } : null
}
