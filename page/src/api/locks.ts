import { call } from './client'
import type { LockRow } from './schema'

/** The locks that WebDAV clients hold, by path. */
export async function listLocks(): Promise<LockRow[]> {
  return (await call('get', '/api/admin/lock/list')).content ?? []
}

export async function removeLock(token: string): Promise<void> {
  await call('post', '/api/admin/lock/delete', { query: { token } })
}
