import { call } from '../api/client'
import { join } from '../api/paths'
import { findKind } from '../parts/kinds'
import { onFolderChanged } from './changed'
import { rememberFile } from './knownFiles'
import { passwords } from './passwords'

const PAGE = 1000
const MAX_PAGES = 10 // of a longer folder the pictures further down have no neighbours

/** The pictures of the folder that was asked for last, in the service's order. */
let known: { folder: string; paths: Promise<string[]>; forget: () => void } | undefined

/** The pictures before and after a picture in its folder, '' where there is none. Throws Problem. */
export async function findNeighbours(folder: string, path: string): Promise<{ previous: string; next: string }> {
  const isNew = known?.folder !== folder
  let paths = await list(folder)
  if (!isNew && !paths.includes(path)) {
    forget()
    paths = await list(folder) // it came later
  }
  const index = paths.indexOf(path)
  const [previous = '', next = ''] = index < 0 ? [] : [paths[index - 1], paths[index + 1]]
  for (const neighbour of [previous, next]) if (neighbour) rememberFile(neighbour)
  return { previous, next }
}

function list(folder: string): Promise<string[]> {
  if (known?.folder === folder) return known.paths
  forget()
  known = { folder, paths: fetchAll(folder), forget: onFolderChanged(folder, forget) }
  known.paths.catch(forget)
  return known.paths
}

function forget(): void {
  known?.forget()
  known = undefined
}

async function fetchAll(folder: string): Promise<string[]> {
  const pictures: string[] = []
  for (let page = 1; page <= MAX_PAGES; page++) {
    const body = { path: folder, password: passwords.find(folder), page, per_page: PAGE, refresh: false }
    const { content, total } = await call('post', '/api/fs/list', { body })
    for (const { name, is_dir, type } of content ?? []) {
      if (!is_dir && findKind(name, type, []) === 'image') pictures.push(join(folder, name))
    }
    if (page * PAGE >= total) break
  }
  return pictures
}
