import { call } from '../api/client'
import { join } from '../api/paths'
import { Problem } from '../api/problem'
import { findKind, type Kind } from '../parts/kinds'
import { onFolderChanged } from './changed'
import { rememberFile } from './knownFiles'
import { passwords } from './passwords'
import { view } from './viewkind.svelte'

const PAGE = 1000
const MAX_PAGES = 10 // of a longer folder the files further down have no neighbours

/** A file of a folder, with its viewer. */
export interface Neighbour {
  path: string
  name: string
  kind: Kind
}

/** The files of the folder that was asked for last, in the order of its list. */
let known: { folder: string; order: string; files: Promise<Neighbour[]>; forget: () => void } | undefined

/** The files before and after a file in its folder, '' where there is none; with `kind`, those of that kind. Throws Problem. */
export async function findNeighbours(
  folder: string,
  path: string,
  kind?: Kind,
): Promise<{ previous: string; next: string }> {
  const files = (await listFiles(folder, path)).filter((file) => kind === undefined || file.kind === kind)
  const index = files.findIndex((file) => file.path === path)
  const [previous = '', next = ''] = index < 0 ? [] : [files[index - 1]?.path, files[index + 1]?.path]
  for (const neighbour of [previous, next]) if (neighbour) rememberFile(neighbour)
  return { previous, next }
}

/** The files of a folder, with `path` if it is among the first MAX_PAGES * PAGE. Throws Problem. */
export async function listFiles(folder: string, path: string): Promise<Neighbour[]> {
  const isNew = known?.folder !== folder || known.order !== JSON.stringify(view.order)
  const files = await list(folder)
  if (isNew || files.some((file) => file.path === path)) return files
  forget()
  return list(folder) // it came later
}

function list(folder: string): Promise<Neighbour[]> {
  const order = JSON.stringify(view.order)
  if (known?.folder === folder && known.order === order) return known.files
  forget()
  known = { folder, order, files: fetchAll(folder), forget: onFolderChanged(folder, forget) }
  known.files.catch(forget)
  return known.files
}

function forget(): void {
  known?.forget()
  known = undefined
}

async function fetchAll(folder: string): Promise<Neighbour[]> {
  const files: Neighbour[] = []
  for (let page = 1; page <= MAX_PAGES; page++) {
    const { content, total } = await fetchPage(folder, page)
    for (const { name, is_dir, type } of content ?? []) {
      if (!is_dir) files.push({ path: join(folder, name), name, kind: findKind(name, type, []) })
    }
    if (page * PAGE >= total) break
  }
  return files
}

/** A folder that is too large to be sorted is listed as its storage does. */
async function fetchPage(folder: string, page: number) {
  const body = { path: folder, password: passwords.find(folder), page, per_page: PAGE, refresh: false }
  const { order } = view
  if (!order) return await call('post', '/api/fs/list', { body })
  try {
    const direction = order.descending ? ('desc' as const) : ('asc' as const)
    return await call('post', '/api/fs/list', { body: { ...body, order_by: order.column, order_direction: direction } })
  } catch (thrown) {
    if (!(thrown instanceof Problem) || thrown.word !== 'TooLarge') throw thrown
    return await call('post', '/api/fs/list', { body })
  }
}
