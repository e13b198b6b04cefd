import type { ApiClient } from './client'
import { get } from './files'
import { Problem } from './problem'
import type { ShareReq, ShareRow, SingleObject } from './schema'
import { makeSharePath } from './sharepaths'

/** What whoever has the address of a share may do with it. */
export const SHARE_MODES = ['read', 'drop', 'both'] as const
export type ShareMode = (typeof SHARE_MODES)[number]

/** The part of a share that its owner edits. */
export interface ShareDraft {
  id: string // '' has the service choose one
  files: readonly string[] // paths of the tree
  expires: string | null // null: never
  password: string
  maxVisits: number // 0: without a limit, as for the numbers below
  disabled: boolean
  remark: string // a note of the owner
  readme: string
  mode: ShareMode
  maxFileBytes: number
  maxTotalBytes: number
  maxFiles: number
  extensions: string // separated by commas
}

/** A share as its owner sees it. `row` has the fields that the page does not edit. */
export interface Share extends ShareDraft {
  visits: number
  creator: string
  row: ShareRow
}

export const EMPTY_SHARE: ShareDraft = {
  id: '',
  files: [],
  expires: null,
  password: '',
  maxVisits: 0,
  disabled: false,
  remark: '',
  readme: '',
  mode: 'read',
  maxFileBytes: 0,
  maxTotalBytes: 0,
  maxFiles: 0,
  extensions: '',
}

/** One page of the links of this user; an administrator gets those of everybody. `page` from 1. */
export async function listShares(
  api: ApiClient,
  page: number,
  size: number,
): Promise<{ rows: Share[]; total: number }> {
  const { content, total } = await api.call('get', '/api/share/list', { query: { page, per_page: size } })
  return { rows: (content ?? []).map(readShare), total }
}

export async function createShare(api: ApiClient, draft: ShareDraft): Promise<Share> {
  return readShare(await api.call('post', '/api/share/create', { body: writeShare(draft) }))
}

/** Replace all of a share but what the page does not edit; its id, too, where the draft has another. */
export async function updateShare(api: ApiClient, share: Share, draft: ShareDraft): Promise<void> {
  const { header, order_by, order_direction, extract_folder, creator } = share.row
  const unedited = { header, order_by, order_direction, extract_folder, creator }
  const body = { ...unedited, ...writeShare(draft), id: share.id, new_id: draft.id, accessed: share.visits }
  await api.call('post', '/api/share/update', { body })
}

export async function removeShare(api: ApiClient, id: string): Promise<void> {
  await api.call('post', '/api/share/delete', { query: { id } })
}

export async function setShareEnabled(api: ApiClient, id: string, isOn: boolean): Promise<void> {
  await api.call('post', isOn ? '/api/share/enable' : '/api/share/disable', { query: { id } })
}

function readShare(row: ShareRow): Share {
  return {
    id: row.id,
    files: row.files,
    expires: row.expires,
    password: row.pwd,
    maxVisits: row.max_accessed,
    disabled: row.disabled,
    remark: row.remark,
    readme: row.readme,
    mode: row.mode,
    maxFileBytes: row.max_file_size,
    maxTotalBytes: row.max_total_size,
    maxFiles: row.max_files,
    extensions: row.extensions.join(', '),
    visits: row.accessed,
    creator: row.creator,
    row,
  }
}

function writeShare(draft: ShareDraft): ShareReq {
  return {
    id: draft.id,
    files: [...draft.files],
    expires: draft.expires ?? '',
    pwd: draft.password,
    max_accessed: draft.maxVisits,
    disabled: draft.disabled,
    remark: draft.remark,
    readme: draft.readme,
    mode: draft.mode,
    max_file_size: draft.maxFileBytes,
    max_total_size: draft.maxTotalBytes,
    max_files: draft.maxFiles,
    extensions: readExtensions(draft.extensions),
  }
}

/** What everybody who opens a share may know of it. */
export interface ShareInfo {
  title: string // the name of what is shared; '' for several things
  owner: string
  expires: string | null
  mode: ShareMode
  isFolder: boolean
  maxFileBytes: number // 0: without a limit, as for the others
  maxTotalBytes: number
  maxFiles: number
  extensions: readonly string[]
}

/** The endings that were typed, in small letters and without dots. */
export function readExtensions(text: string): string[] {
  return text
    .toLowerCase()
    .split(/[\s,;]+/)
    .map((ending) => ending.replace(/^\*?\.+/, ''))
    .filter(Boolean)
}

type SharedObject = SingleObject & { share?: SharedFacts | null }

interface SharedFacts {
  creator: string
  expires: string | null
  mode: ShareMode
  max_file_size: number
  max_total_size: number
  max_files: number
  extensions: string[]
}

/** Ask what a share is. Throws Problem: `folderPassword` when the password is wrong or missing. */
export async function getShareInfo(api: ApiClient, id: string, password: string): Promise<ShareInfo> {
  const { name, is_dir, share }: SharedObject = await get(api, makeSharePath(id), password)
  if (!share) throw new Problem('missing')
  return {
    title: name === id ? '' : name,
    owner: share.creator,
    expires: share.expires,
    mode: share.mode,
    isFolder: is_dir,
    maxFileBytes: share.max_file_size,
    maxTotalBytes: share.max_total_size,
    maxFiles: share.max_files,
    extensions: share.extensions,
  }
}
