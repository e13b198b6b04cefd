import type { findNameFault } from '../../api/files'
import { join } from '../../api/paths'
import type { Problem } from '../../api/problem'
import type { Receipt } from '../../api/upload'
import type { STALLED } from './stall'

export type UploadState = 'running' | 'asking' | 'failed' | 'queued' | 'skipped' | 'canceled' | 'storing' | 'done'

/** The choice for a name that is taken. */
export type Choice = 'replace' | 'keepBoth' | 'skip'

/** The files of one selection or drop; a choice for all applies to them. */
export class Batch {
  choice: Choice | null = null

  constructor(readonly folder: string) {}
}

export type NameFault = NonNullable<ReturnType<typeof findNameFault>>

/** Why it failed: the service's answer, a name that cannot be, a file that this device does not give out any more, or a
 *  long time without progress. */
export type Fault = Problem | { name: string; fault: NameFault } | 'unreadable' | typeof STALLED

/** A file, or an empty folder, on its way. Not reactive: there may be ten thousand, and few of them are in view. */
export class Upload {
  state: UploadState = 'queued'
  sent = 0 // bytes
  fault: Fault | null = null
  choice: Choice | null = null
  storedAs: string // the name, unless both are kept
  readonly size: number // bytes; the browser asks the disk each time that `File.size` is read
  task = '' // the id of the task that stores it, while it is storing
  receipt: Receipt | null = null // of the service, for what was sent to a share
  controller: AbortController | null = null // while it is running

  /** `file` is null for a folder. */
  constructor(
    public batch: Batch,
    readonly folder: string,
    readonly name: string,
    readonly file: File | null,
  ) {
    this.storedAs = name
    this.size = file?.size ?? 0
  }

  get path(): string {
    return join(this.folder, this.storedAs)
  }
}

export const FINISHED: readonly UploadState[] = ['failed', 'skipped', 'canceled', 'storing', 'done']

export function isFinished(upload: Upload): boolean {
  return FINISHED.includes(upload.state)
}
