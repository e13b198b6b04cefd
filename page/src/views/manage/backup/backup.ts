import type { ApiClient } from '../../../api/client'
import type { MetaReq, SettingRow, StorageRow, UserRow } from '../../../api/schema'

/** The content of a backup. The interface does not give out passwords, application passwords, second factors or SSH keys of users, so they are not in it. */
export interface Backup {
  settings: SettingRow[]
  storages: StorageRow[]
  users: UserRow[]
  metas: MetaReq[]
}

export type Part = keyof Backup

/** In the order in which they are restored: rules name users. */
export const PARTS: readonly Part[] = ['settings', 'storages', 'users', 'metas']

/** Return the key of an entry of a part. */
export const KEYS = { settings: 'key', storages: 'mount_path', users: 'username', metas: 'path' } as const

/** Everything that an administrator has set up; secrets of storages and settings are in it. */
export async function readAll(api: ApiClient): Promise<Backup> {
  const [settings, storages, users, metas] = await Promise.all([
    api.call('get', '/api/admin/setting/list'),
    api.call('get', '/api/admin/storage/list'),
    api.call('get', '/api/admin/user/list'),
    api.call('get', '/api/admin/meta/list'),
  ])
  return { settings, storages: storages.content ?? [], users: users.content ?? [], metas: metas.content ?? [] }
}

/** The text of a backup file, as other front ends of this interface write it too. */
export function formatBackup(backup: Backup): string {
  return JSON.stringify({ encrypted: '', ...backup }, null, 2)
}

/** The backup in a file's text, what is absent empty; null when it is none, or encrypted by another front end. */
export function parseBackup(text: string): Backup | null {
  const parsed = parseObject(text)
  if (!parsed || parsed.encrypted) return null
  const backup: Backup = { settings: [], storages: [], users: [], metas: [] }
  for (const part of PARTS) {
    const rows = parsed[part] ?? []
    if (!Array.isArray(rows) || !rows.every((row) => hasKey(row, KEYS[part]))) return null
    backup[part] = rows
  }
  return PARTS.some((part) => backup[part].length > 0) ? backup : null
}

function parseObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? { ...value } : null
  } catch {
    return null
  }
}

function hasKey(row: unknown, key: string): boolean {
  return typeof row === 'object' && row !== null && typeof Object.getOwnPropertyDescriptor(row, key)?.value === 'string'
}
