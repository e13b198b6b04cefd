const MAX_SILENT_MS = 5 * 60_000

/** The reason of the abort of a request that makes no progress. */
export const STALLED = 'stalled'

/** Ends an upload that makes no progress, whatever it waits for. */
export class StallGuard {
  #hasEnded = false
  #timer: ReturnType<typeof setTimeout> | undefined
  #reject: (reason: typeof STALLED) => void = () => {}

  constructor(private controller: AbortController) {}

  /** Wait for the upload. Throws STALLED after a time without a report. */
  async watch<Result>(upload: Promise<Result>): Promise<Result> {
    const stalled = new Promise<never>((_, reject) => {
      this.#reject = reject
    })
    this.report()
    try {
      return await Promise.race([upload, stalled])
    } finally {
      this.#hasEnded = true
      clearTimeout(this.#timer)
    }
  }

  /** Say that there is progress. */
  report(): void {
    clearTimeout(this.#timer)
    if (!this.#hasEnded) this.#timer = setTimeout(() => this.#end(), MAX_SILENT_MS)
  }

  #end(): void {
    this.controller.abort(STALLED)
    this.#reject(STALLED)
  }
}
