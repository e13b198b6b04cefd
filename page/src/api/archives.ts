import type { ApiClient } from './client'
import type { ArchiveListing, ArchiveMeta } from './schema'

/** An archive in the tree, and its two passwords: that of the folder it is in, and its own. */
export interface ArchiveRequest {
  path: string
  password: string
  archive_pass: string
}

/** Throws Problem: `archivePassword` when the archive has a password, and none or another one was given. */
export function getArchive(api: ApiClient, archive: ArchiveRequest): Promise<ArchiveMeta> {
  return api.call('post', '/api/fs/archive/meta', { body: { ...archive, refresh: false } })
}

export function listArchiveFolder(
  api: ApiClient,
  archive: ArchiveRequest,
  inside: string,
  most: number,
): Promise<ArchiveListing> {
  const body = { ...archive, inner_path: inside, page: 1, per_page: most, refresh: false }
  return api.call('post', '/api/fs/archive/list', { body })
}

/** Unpack into a new folder of the same folder, as a task. */
export async function unpackBeside(api: ApiClient, folder: string, name: string, password: string): Promise<void> {
  const body = { src_dir: folder, dst_dir: folder, name: [name], archive_pass: password, put_into_new_dir: true }
  await api.call('post', '/api/fs/archive/decompress', { body })
}

/** Return the address of a member of an archive. The interface takes the archive's password only in the address. */
export function formatMemberAddress(archive: ArchiveMeta, inside: string, password: string): string {
  const query = new URLSearchParams({ inner: inside })
  if (password) query.set('pass', password)
  if (archive.sign) query.set('sign', archive.sign)
  return `${archive.raw_url}?${query}`
}
