import { SETTING_FLAGS } from '../../../api/enums'
import type { MetaReq, SettingRow, StorageRow, UserRow } from '../../../api/schema'
import type { Backup, Part } from './backup'

export type What = 'create' | 'update' | 'same' | 'unknown'

/** A step of a restore: one entry of the backup. */
export type Step = { name: string; what: What } & (
  | { part: 'settings'; row: SettingRow }
  | { part: 'storages'; row: StorageRow }
  | { part: 'users'; row: UserRow }
  | { part: 'metas'; row: MetaReq }
)

const OWN_STATE = ['index_progress', 'link_salt'] // of the service; the salt of links goes with the token

/** Compare a backup with what is there now: what is only here stays. */
export function planRestore(backup: Backup, now: Backup): Step[] {
  return [
    ...backup.settings.filter(isRestored).map((row) => planSetting(row, now)),
    ...backup.storages.map((row) => planStorage(row, now)),
    ...backup.users.map((row) => planUser(row, now)),
    ...backup.metas.map((row) => planMeta(row, backup, now)),
  ]
}

export function countSteps(steps: readonly Step[], part: Part, what: What): number {
  return steps.filter((step) => step.part === part && step.what === what).length
}

function isRestored({ key, flag }: SettingRow): boolean {
  return flag !== SETTING_FLAGS.readonly && flag !== SETTING_FLAGS.deprecated && !OWN_STATE.includes(key)
}

function planSetting(row: SettingRow, now: Backup): Step {
  const old = now.settings.find((item) => item.key === row.key && item.flag !== SETTING_FLAGS.deprecated)
  const what = !old ? 'unknown' : old.value === row.value ? 'same' : 'update'
  return { part: 'settings', name: row.key, what, row }
}

function planStorage(row: StorageRow, now: Backup): Step {
  const old = now.storages.find((item) => item.mount_path === row.mount_path)
  const next = { ...row, id: old?.id ?? 0 }
  return {
    part: 'storages',
    name: row.mount_path,
    what: compare(old, next, ['status', 'modified', 'mount_details']),
    row: next,
  }
}

/** The administrator and the guest are everywhere, under names of their own; others are known by their names. */
export function findUser(row: UserRow, users: readonly UserRow[]): UserRow | undefined {
  return users.find((item) => (row.role === 0 ? item.username === row.username : item.role === row.role))
}

function planUser(row: UserRow, now: Backup): Step {
  const old = findUser(row, now.users)
  const username = row.role === 0 ? row.username : (old?.username ?? row.username)
  const next = { ...row, username, id: old?.id ?? 0, password: '' }
  return { part: 'users', name: username, what: compare(old, next, ['password', 'otp']), row: next }
}

function planMeta(row: MetaReq, backup: Backup, now: Backup): Step {
  const old = now.metas.find((item) => item.path === row.path)
  const next = { ...row, id: old?.id ?? 0 }
  const here = old && { ...old, ...nameUsers(old, now.users) }
  const there = { ...next, ...nameUsers(row, backup.users) }
  return { part: 'metas', name: row.path, what: compare(here, there, []), row: next }
}

function nameUsers({ read_users, write_users }: MetaReq, users: readonly UserRow[]) {
  const name = (id: number) => users.find((item) => item.id === id)?.username ?? id
  return { read_users: (read_users ?? []).map(name), write_users: (write_users ?? []).map(name) }
}

/** The users of a rule by the ids that they have here; the name of one who is not here. */
export function findUserIds(ids: readonly number[] | null | undefined, backup: Backup, here: readonly UserRow[]) {
  const userIds: number[] = []
  for (const id of ids ?? []) {
    const row = backup.users.find((item) => item.id === id)
    const user = row && findUser(row, here)
    if (!user) return { missing: row?.username ?? String(id) }
    userIds.push(user.id)
  }
  return { userIds }
}

function compare(old: object | undefined, next: object, ignored: readonly string[]): What {
  if (!old) return 'create'
  const values = new Map(Object.entries(old))
  const isSame = Object.entries(next).every(
    ([name, value]) => ignored.includes(name) || !values.has(name) || normalise(values.get(name)) === normalise(value),
  )
  return isSame ? 'same' : 'update'
}

/** A value as a text that is the same for the same value; a text that is JSON counts as what it says. */
function normalise(value: unknown): string {
  const told = typeof value === 'string' && value.startsWith('{') ? tryParse(value) : value
  return JSON.stringify(told ?? null, (_, item) =>
    isObject(item) ? Object.fromEntries(Object.entries(item).sort()) : item,
  )
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
