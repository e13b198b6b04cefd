import { decodePath, encodePath } from '../api/paths'
import { formatAddress } from '../state/routes'

/** The target of an address in a text. */
export type Place =
  | { kind: 'anchor'; name: string }
  | { kind: 'data'; address: string }
  | { kind: 'mail' }
  | { kind: 'remote'; address: string; host: string }
  | { kind: 'tree'; path: string; address: string } // `address` is the page's own for it

const TREE = 'https://tree.invalid' // a name that no host can have

/** The place of an address in a text of `folder`; null for what leads nowhere. */
export function resolvePlace(address: string, folder: string): Place | null {
  if (address.startsWith('#')) return { kind: 'anchor', name: decodePath(address.slice(1)).slice(1) }
  if (address.trim() === '') return null
  const base = folder === '/' ? TREE : TREE + encodePath(folder)
  if (!URL.canParse(address, `${base}/`)) return null
  const url = new URL(address, `${base}/`)
  if (url.origin === TREE) {
    const path = decodePath(url.pathname)
    return { kind: 'tree', path, address: formatAddress({ view: 'files', path }) }
  }
  if (url.protocol === 'http:' || url.protocol === 'https:')
    return { kind: 'remote', address: url.href, host: url.host }
  if (url.protocol === 'mailto:') return { kind: 'mail' }
  return /^data:image\//i.test(url.href) ? { kind: 'data', address: url.href } : null
}
