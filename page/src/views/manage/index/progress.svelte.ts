import type { ApiClient } from '../../../api/client'
import { asProblem, type Problem } from '../../../api/problem'
import type { IndexProgress } from '../../../api/schema'

const POLL_INTERVAL_MS = 1000 // ms between two looks while a run is under way
const LATER = 10_000 // others may begin one

/** The progress of the index, fetched repeatedly while it is shown. */
export class Progress {
  value = $state.raw<IndexProgress | null>(null)
  problem = $state.raw<Problem | null>(null)
  isOff = $state(false) // there is no search
  #timer: ReturnType<typeof setTimeout> | undefined
  #isFollowed = false

  constructor(private readonly api: ApiClient) {}

  /** Look until the function that is returned is called. */
  follow(): () => void {
    this.#isFollowed = true
    void this.load()
    return () => {
      this.#isFollowed = false
      clearTimeout(this.#timer)
    }
  }

  async load(): Promise<void> {
    clearTimeout(this.#timer)
    try {
      this.value = await this.api.call('get', '/api/admin/index/progress')
      this.problem = null
      this.isOff = false
    } catch (thrown) {
      const problem = asProblem(thrown)
      this.isOff = problem.code === 404
      this.problem = this.isOff ? null : problem
    }
    clearTimeout(this.#timer)
    const isRunning = this.value !== null && !this.value.is_done
    if (this.#isFollowed && !this.isOff && !this.problem)
      this.#timer = setTimeout(() => void this.load(), isRunning ? POLL_INTERVAL_MS : LATER)
  }
}
