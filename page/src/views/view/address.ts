import { findAddress, type Source } from '../../api/bytes'
import { session } from '../../state/session.svelte'

/** Where the page may fetch the bytes of a file of the tree as its user sees it. */
export function addressOf(path: string, file: Source): string {
  const base = session.user?.base_path ?? '/'
  return findAddress(base === '/' ? path : base + path, file)
}
