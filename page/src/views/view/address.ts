import { findAddress, type Source } from '../../api/bytes'
import type { Stores } from '../../state/stores'

/** The address at which the page fetches the bytes of a file. */
export function addressOf({ session }: Stores, path: string, file: Source): string {
  return findAddress(session.makeAbsolute(path), file)
}
