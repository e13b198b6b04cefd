/** Tree paths begin with `/` and have no `/` at the end; the root is `/`. */

export function join(folder: string, name: string): string {
  return folder === '/' ? `/${name}` : `${folder}/${name}`
}

export function parent(path: string): string {
  return path.slice(0, path.lastIndexOf('/')) || '/'
}

export function baseName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}

/** The path and all folders above it, the root first. */
export function ancestors(path: string): string[] {
  const parts = path.split('/').filter(Boolean)
  return ['/', ...parts.map((_, index) => `/${parts.slice(0, index + 1).join('/')}`)]
}

/** The path as part of an address. */
export function encodePath(path: string): string {
  return path.split('/').map(encodeURIComponent).join('/')
}

/** The address of a file under one of the service's routes. One with a question mark is in the query: where the service
 *  runs in the cloud a path is cut there. */
export function makeFileAddress(route: string, path: string, query: Record<string, string>): string {
  const parameters = new URLSearchParams(path.includes('?') ? { ...query, path } : query)
  return `${route}${encodePath(path.replaceAll('?', '_'))}?${parameters}`
}

/** Undo `encodePath`. What is no valid encoding (a `%` typed by hand) stands for itself. */
export function decodePath(text: string): string {
  const parts = text.split('/').filter(Boolean).map(decodePart)
  return `/${parts.join('/')}`
}

function decodePart(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
