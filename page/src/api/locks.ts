import type { ApiClient } from './client'
import type { LockRow } from './schema'

/** The locks that WebDAV clients hold, by path. */
export async function listLocks(api: ApiClient): Promise<LockRow[]> {
  return (await api.call('get', '/api/admin/lock/list')).content ?? []
}

export async function removeLock(api: ApiClient, token: string): Promise<void> {
  await api.call('post', '/api/admin/lock/delete', { query: { token } })
}
