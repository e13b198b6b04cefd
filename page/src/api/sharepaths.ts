import { ancestors, encodePath } from './paths'

/** What a share has is read at the paths `/@s/<id>[/…]`. */
const ROOT = '/@s'

/** The id of the share that a path is in; '' for a path of the tree. */
export function findShareId(path: string): string {
  const [, first, id = ''] = path.split('/')
  return `/${first}` === ROOT ? id : ''
}

/** The path of a share itself. */
export function makeSharePath(id: string): string {
  return `${ROOT}/${id}`
}

/** The folders that lead to a path, the outermost first: of a share those inside it alone. */
export function listFolders(path: string): string[] {
  return ancestors(path).slice(findShareId(path) ? 2 : 0)
}

/** The address in the page of a path in a share. */
export function formatShareAddress(path: string): string {
  return ROOT + encodePath(path.slice(ROOT.length))
}

/** The address of the bytes in a share, without an account: of a file, or (`zip`) of a folder as a ZIP. */
export function makeShareBytesAddress(path: string, password: string, zip = false): string {
  const query = new URLSearchParams({ ...(zip && { zip: '' }), ...(password && { pwd: password }) })
  const address = `/sd${encodePath(path.slice(ROOT.length))}${zip ? '/' : ''}`
  return query.size > 0 ? `${address}?${query}` : address
}
