import type { ApiClient } from './client'
import { encodePath } from './paths'
import type { Versions } from './schema'

/** The versions of a file. */

export type Version = Versions['content'][number]

export function listVersions(api: ApiClient, path: string, password: string): Promise<Versions> {
  return api.call('post', '/api/fs/versions', { body: { path, password } })
}

/** Make a version the present file, which becomes a version. */
export async function restoreVersion(api: ApiClient, path: string, id: string, password: string): Promise<void> {
  await api.call('post', '/api/fs/versions/restore', { body: { path, id, password } })
}

/** The address of a version's content. `path` is that in the whole tree; `sign` is the signature for it, '' for none. */
export function formatVersionAddress(path: string, id: string, sign: string): string {
  const query = new URLSearchParams({ version: id, ...(sign && { sign }) })
  return `/d${encodePath(path)}?${query}`
}
