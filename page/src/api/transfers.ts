import type { ApiClient } from './client'
import { slice } from './files'

/** The choice for a name that is taken at the target. `merge` enters folders and keeps their files. */
export type OnConflict = 'overwrite' | 'skip' | 'merge' | 'keepBoth'

export interface Transfer {
  from: string
  to: string
  names: readonly string[]
  password: string
  onConflict: OnConflict | '' // '' refuses
}

/** Move or copy entries, at once or by tasks that this opens: the answer does not tell. `onpart` is told what was taken on. */
export async function transfer(
  api: ApiClient,
  verb: 'move' | 'copy',
  { from, to, names, password, onConflict }: Transfer,
  onpart: (names: readonly string[]) => void,
): Promise<void> {
  for (const part of slice(names)) {
    const body = {
      src_dir: from,
      dst_dir: to,
      names: part,
      password,
      overwrite: onConflict === 'overwrite',
      skip_existing: onConflict === 'skip',
      merge: onConflict === 'merge',
      keep_both: onConflict === 'keepBoth',
    }
    await api.call('post', `/api/fs/${verb}`, { body })
    onpart(part)
  }
}

/** Move all files below a folder into one. */
export async function gather(
  api: ApiClient,
  from: string,
  to: string,
  policy: 'cancel' | 'skip' | 'overwrite',
): Promise<void> {
  await api.call('post', '/api/fs/recursive_move', { body: { src_dir: from, dst_dir: to, conflict_policy: policy } })
}

export interface Unpacking {
  from: string
  names: readonly string[]
  to: string
  archivePassword: string
  intoNewFolder: boolean
  overwrite: boolean
}

/** Open the tasks that unpack archives of one folder. */
export async function unpack(api: ApiClient, what: Unpacking, password: string): Promise<void> {
  const body = {
    src_dir: what.from,
    dst_dir: what.to,
    name: [...what.names],
    archive_pass: what.archivePassword,
    inner_path: '/',
    cache_full: false,
    put_into_new_dir: what.intoNewFolder,
    overwrite: what.overwrite,
    password,
  }
  await api.call('post', '/api/fs/archive/decompress', { body })
}

/** The fate of the temporary file when an offline download ends. */
export const DELETE_POLICIES = [
  'delete_on_upload_succeed',
  'delete_on_upload_failed',
  'delete_never',
  'delete_always',
] as const
export type DeletePolicy = (typeof DELETE_POLICIES)[number]

/** The tools that are ready, the first is the usual one. */
export async function listTools(api: ApiClient): Promise<string[]> {
  return (await api.call('get', '/api/public/offline_download_tools')) ?? []
}

/** Fetch addresses into a folder; how many tasks were opened: a storage of addresses takes them at once. */
export async function downloadOffline(
  api: ApiClient,
  folder: string,
  urls: string[],
  tool: string,
  policy: DeletePolicy,
) {
  const body = { path: folder, urls, tool, delete_policy: policy }
  return (await api.call('post', '/api/fs/add_offline_download', { body })).tasks.length
}
