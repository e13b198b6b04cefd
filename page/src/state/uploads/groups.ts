import { isFinished, type Upload, type UploadState } from './upload'

const MAX_SMALL_BYTES = 2 ** 20 // of a file that may be one of a line
const MIN_GROUP_FILES = 20

/** Many small files, shown as one line. */
export interface UploadGroup {
  count: number
  done: number
  size: number // bytes
}

const GATHERED: readonly UploadState[] = ['queued', 'running', 'storing', 'done']

/** The small files among the uploads as one line, unless they are few; and those that have lines of their own. */
export function gatherSmall(uploads: readonly Upload[]): { group: UploadGroup | null; others: readonly Upload[] } {
  const small = uploads.filter(({ size, state }) => size <= MAX_SMALL_BYTES && GATHERED.includes(state))
  if (small.length < MIN_GROUP_FILES) return { group: null, others: uploads }
  const gathered = new Set(small)
  const done = small.filter((upload) => isFinished(upload)).length
  const size = small.reduce((sum, upload) => sum + upload.size, 0)
  return { group: { count: small.length, done, size }, others: uploads.filter((upload) => !gathered.has(upload)) }
}
