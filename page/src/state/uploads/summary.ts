import type { Upload, UploadState } from './upload'

/** The totals of a list of uploads. Sizes in bytes. */
export interface Summary {
  count: number
  by: Record<UploadState, number>
  finished: number
  size: number // of those that are not given up
  sent: number
}

export function summarize(uploads: readonly Upload[]): Summary {
  const by = { running: 0, asking: 0, failed: 0, queued: 0, skipped: 0, canceled: 0, storing: 0, done: 0 }
  let size = 0
  let sent = 0
  for (const upload of uploads) {
    by[upload.state]++
    if (upload.state === 'skipped' || upload.state === 'canceled' || upload.state === 'failed') continue
    size += upload.size
    sent += upload.state === 'done' || upload.state === 'storing' ? upload.size : Math.min(upload.sent, upload.size)
  }
  const finished = uploads.length - by.running - by.asking - by.queued
  return { count: uploads.length, by, finished, size, sent }
}

const RANK: readonly UploadState[] = ['running', 'asking', 'failed', 'queued', 'storing', 'skipped', 'canceled', 'done']

/** The order of the rows: those that need attention first. */
export function sort(uploads: readonly Upload[]): Upload[] {
  const ranked = new Map<UploadState, Upload[]>(RANK.map((state) => [state, []]))
  for (const upload of uploads) ranked.get(upload.state)?.push(upload)
  return [...ranked.values()].flat()
}
