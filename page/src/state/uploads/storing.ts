import type { ApiClient } from '../../api/client'
import { asProblem, Problem } from '../../api/problem'
import { find, isDone, list } from '../../api/tasks'
import type { Upload } from './upload'

const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 1500
const PAUSE_GROWTH = 1.5
const MAX_ANSWER_MS = 60_000 // of a question: a connection may be dead without a sign
const MAX_UNFINISHED_TASKS = 200 // of a request
const MAX_ENDED_TASKS_PER_ROUND = 20 // of which it is asked how they ended

/** Follows uploads that tasks of the service store, to the end of each task. */
export class StoringFollower {
  #uploads = new Set<Upload>()
  #timer: ReturnType<typeof setTimeout> | undefined
  #pause = FIRST_PAUSE_MS // longer after each question, until another upload begins
  #isAsking = false

  /** `onended` is told of each upload when its state is `done` or `failed`. */
  constructor(
    private readonly api: ApiClient,
    private onended: (upload: Upload) => void,
  ) {}

  add(upload: Upload): void {
    this.#uploads.add(upload)
    this.#pause = FIRST_PAUSE_MS
    this.#plan()
  }

  /** Ask now: some task has ended. */
  hurry(): void {
    if (this.#uploads.size === 0 || this.#isAsking) return
    clearTimeout(this.#timer)
    void this.#ask()
  }

  #plan(): void {
    if (this.#uploads.size > 0) this.#timer ??= setTimeout(() => void this.#ask(), this.#pause)
  }

  async #ask(): Promise<void> {
    this.#isAsking = true
    this.#pause = Math.min(PAUSE_GROWTH * this.#pause, LONGEST_PAUSE_MS)
    try {
      for (const upload of await this.#findEnded()) await this.#settle(upload)
    } catch (thrown) {
      const { kind } = asProblem(thrown)
      if (kind === 'signedOut' || kind === 'forbidden') this.#uploads.clear() // who asks may not see tasks
    }
    this.#timer = undefined
    this.#isAsking = false
    this.#plan()
  }

  /** The uploads whose tasks are not under way any more, some of them if there are many. */
  async #findEnded(): Promise<Upload[]> {
    for (const upload of this.#uploads) if (upload.state !== 'storing') this.#uploads.delete(upload)
    if (this.#uploads.size === 1) return [...this.#uploads] // its own state is asked for
    const rows = await list(this.api, 'upload', 'undone', 1, MAX_UNFINISHED_TASKS, AbortSignal.timeout(MAX_ANSWER_MS))
    const left = new Set(rows.map(({ id }) => id))
    return [...this.#uploads].filter(({ task }) => !left.has(task)).slice(0, MAX_ENDED_TASKS_PER_ROUND)
  }

  async #settle(upload: Upload): Promise<void> {
    const task = await find(this.api, 'upload', upload.task, AbortSignal.timeout(MAX_ANSWER_MS))
    if (task && !isDone(task)) return // beyond the rows that were asked for
    this.#uploads.delete(upload)
    if (upload.state !== 'storing') return
    const hasFailed = task !== null && task.state !== 'succeeded'
    upload.state = hasFailed ? 'failed' : 'done'
    upload.fault = hasFailed ? new Problem('broken', task.error) : null
    this.onended(upload)
  }
}
