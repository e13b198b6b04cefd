import type { ApiClient } from './client'
import { encodePath, join } from './paths'
import { asProblem } from './problem'
import type { FileObject, FolderName, ListReq, RenameObject, SingleObject } from './schema'

const MAX_NAMES_PER_REQUEST = 10_000 // that one request may carry
const PER_PAGE = 1000

export function get(api: ApiClient, path: string, password: string): Promise<SingleObject> {
  return api.call('post', '/api/fs/get', { body: { path, password } })
}

/** The name of the user who changed a file last; empty if it is not known. */
export async function findChanger(api: ApiClient, path: string, password: string): Promise<string> {
  const { username } = await api.call('post', '/api/fs/changer', { body: { path, password } })
  return username
}

/** True if there is something at the path, as far as the service tells: the change itself will tell the rest. */
export async function isTaken(api: ApiClient, path: string, password: string): Promise<boolean> {
  try {
    await get(api, path, password)
    return true
  } catch (thrown) {
    const { kind } = asProblem(thrown)
    if (kind === 'signedOut' || kind === 'offline') throw thrown
    return false
  }
}

export async function makeFolder(api: ApiClient, folder: string, name: string): Promise<void> {
  await api.call('post', '/api/fs/mkdir', { body: { path: join(folder, name) } })
}

export async function rename(api: ApiClient, path: string, name: string, password: string): Promise<void> {
  await api.call('post', '/api/fs/rename', { body: { path, name, password } })
}

export async function remove(
  api: ApiClient,
  folder: string,
  names: readonly string[],
  password: string,
): Promise<void> {
  for (const part of slice(names)) {
    await api.call('post', '/api/fs/remove', { body: { dir: folder, names: part, password } })
  }
}

/** An empty file; Problem `exists` when the name is taken. */
export async function makeFile(api: ApiClient, folder: string, name: string): Promise<void> {
  await api.call('put', '/api/fs/put', { headers: { 'file-path': encodePath(join(folder, name)), overwrite: 'false' } })
}

/** Rename entries of one folder. The service looks at all of them before it renames the first. */
export async function renameAll(
  api: ApiClient,
  folder: string,
  renames: readonly RenameObject[],
  password: string,
): Promise<void> {
  for (const part of slice(renames)) {
    await api.call('post', '/api/fs/batch_rename', { body: { src_dir: folder, rename_objects: part, password } })
  }
}

/** Rename all entries of a folder whose names match `pattern` (RE2); `template` is Go's: `$1`, `${name}`, `$$`. */
export async function renameByPattern(
  api: ApiClient,
  folder: string,
  pattern: string,
  template: string,
  password: string,
) {
  const body = { src_dir: folder, src_name_regex: pattern, new_name_regex: template, password }
  await api.call('post', '/api/fs/regex_rename', { body })
}

/** Remove the empty folders below a folder, and those that become empty by it. */
export async function removeEmptyFolders(api: ApiClient, folder: string): Promise<void> {
  await api.call('post', '/api/fs/remove_empty_directory', { body: { src_dir: folder } })
}

export async function listFolders(
  api: ApiClient,
  path: string,
  password: string,
  signal?: AbortSignal,
): Promise<FolderName[]> {
  const options = signal ? { signal } : {}
  return (await api.call('post', '/api/fs/dirs', { body: { path, password, force_root: false }, ...options })) ?? []
}

export type ListOrder = Pick<ListReq, 'order_by' | 'order_direction'>

/** The entries of a folder, page by page as they are asked for; without an order, in that of the service. */
export async function* listEntries(
  api: ApiClient,
  path: string,
  password: string,
  signal?: AbortSignal,
  order: ListOrder = {},
): AsyncGenerator<FileObject> {
  for (let page = 1, seen = 0, total = 1; seen < total; page++) {
    const body = { path, password, page, per_page: PER_PAGE, refresh: false, ...order }
    const listing = await api.call('post', '/api/fs/list', { body, ...(signal && { signal }) })
    const entries = listing.content ?? []
    if (entries.length === 0) return
    yield* entries
    seen += entries.length
    total = listing.total
  }
}

/** The first `most` entries of a folder. */
export async function listFirst(
  api: ApiClient,
  path: string,
  password: string,
  most: number,
  order: ListOrder = {},
): Promise<FileObject[]> {
  const matches: FileObject[] = []
  for await (const entry of listEntries(api, path, password, undefined, order)) {
    if (matches.length === most) break
    matches.push(entry)
  }
  return matches
}

export function* slice<Item>(items: readonly Item[]): Generator<Item[]> {
  for (let start = 0; start < items.length; start += MAX_NAMES_PER_REQUEST)
    yield items.slice(start, start + MAX_NAMES_PER_REQUEST)
}

/** Return the fault of a name by the rules of the service; null if the name is valid. */
export function findNameFault(name: string): 'empty' | 'dot' | 'slash' | 'tooLong' | null {
  if (name === '') return 'empty'
  if (name === '.' || name === '..') return 'dot'
  if (/[/\\]/.test(name)) return 'slash'
  return new TextEncoder().encode(name).length > 255 ? 'tooLong' : null
}
