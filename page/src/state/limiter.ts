/** Lets at most `most` pieces of work run at once. What was asked for last goes first: it is what is in view by now. */
export class Limiter {
  #running = 0
  #waiting: (() => void)[] = []

  constructor(readonly most: number) {}

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running < this.most) this.#running++
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = this.#waiting.pop()
      if (next) next()
      else this.#running--
    }
  }
}
