import { EVERY_NAME, search } from '../../state/search.svelte'
import type { Stores } from '../../state/stores'

const MAX_COUNTED_FILES = 20_000 // files of a folder whose sizes are added

export interface FolderSize {
  bytes: number
  files: number
  /** False if there are more files than were added. */
  isWhole: boolean
}

/** The size of a folder with everything below it, from the index of names; null if the index does not have it. */
export async function measureFolder(stores: Stores, path: string, isWanted: () => boolean): Promise<FolderSize | null> {
  const filter = { ext: '', min_size: null, max_size: null, since: '', until: '' }
  const hits = search(stores, { keywords: EVERY_NAME, parent: path, scope: 2, ...filter }, () => {})
  try {
    await hits.show(0, 0)
    if (hits.problem) return null
    const count = Math.min(hits.total, MAX_COUNTED_FILES)
    const rows = count > 0 && isWanted() ? await hits.collect([[0, count - 1]]) : []
    return { bytes: rows.reduce((sum, { size }) => sum + size, 0), files: hits.total, isWhole: count === hits.total }
  } catch {
    return null
  } finally {
    hits.close()
  }
}
