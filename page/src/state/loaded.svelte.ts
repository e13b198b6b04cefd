import { asProblem, type Problem } from '../api/problem'

/** A value of the service: fetched by `load`, and kept while it is fetched again. */
export class Loaded<Value> {
  value = $state.raw<Value | null>(null) // null until it is here
  problem = $state.raw<Problem | null>(null)
  isBusy = $state(false)
  readonly #fetch: () => Promise<Value>
  #last = 0

  constructor(fetch: () => Promise<Value>) {
    this.#fetch = fetch
  }

  /** The answer to the latest call counts: an earlier one may come later. */
  async load(): Promise<void> {
    const call = ++this.#last
    this.isBusy = true
    try {
      const value = await this.#fetch()
      if (call !== this.#last) return
      this.value = value
      this.problem = null
    } catch (thrown) {
      if (call === this.#last) this.problem = asProblem(thrown)
    } finally {
      if (call === this.#last) this.isBusy = false
    }
  }
}
