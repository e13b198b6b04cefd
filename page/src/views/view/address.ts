import { findAddress, type Source } from '../../api/bytes'
import { session } from '../../state/session.svelte'

/** The address at which the page fetches the bytes of a file. */
export function addressOf(path: string, file: Source): string {
  return findAddress(session.makeAbsolute(path), file)
}
