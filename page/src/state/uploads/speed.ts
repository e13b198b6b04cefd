const WINDOW = 5000 // ms that the speed is the mean of

/** The recent speed of transfers. Times in ms. */
export class Speed {
  #samples: { at: number; bytes: number }[] = []

  add(bytes: number, at: number): void {
    const last = this.#samples.at(-1)
    if (last && at - last.at < 100) last.bytes += bytes
    else this.#samples.push({ at, bytes })
    this.#forget(at)
  }

  /** Bytes in a second. */
  measure(now: number): number {
    this.#forget(now)
    const first = this.#samples[0]
    if (!first) return 0
    const sum = this.#samples.reduce((bytes, sample) => bytes + sample.bytes, 0)
    return (1000 * sum) / Math.max(1000, now - first.at)
  }

  clear(): void {
    this.#samples = []
  }

  #forget(now: number): void {
    while (this.#samples[0] && now - this.#samples[0].at > WINDOW) this.#samples.shift()
  }
}
