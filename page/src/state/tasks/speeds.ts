import type { Task } from '../../api/tasks'
import { Speed } from '../uploads/speed'

/** The recent speeds of tasks, from what they had done each time they were asked. */
export class TaskSpeeds {
  #tasks = new Map<string, { speed: Speed; done: number }>()

  /** Take note of the tasks of a kind that are under way; those of `before` that are not are forgotten. */
  observe(before: readonly Task[], now: readonly Task[], at: number): void {
    const left = new Set(now.map(({ id }) => id))
    for (const { id } of before) if (!left.has(id)) this.#tasks.delete(id)
    for (const { id, done_bytes: done, state } of now) {
      const known = this.#tasks.get(id)
      if (state !== 'running') this.#tasks.delete(id)
      else if (!known) this.#tasks.set(id, { speed: new Speed(), done })
      else if (done !== known.done) {
        known.speed.add(Math.max(0, done - known.done), at)
        known.done = done
      }
    }
  }

  /** Bytes in a second; 0 if it is not known. */
  measure(id: string, at: number): number {
    return this.#tasks.get(id)?.speed.measure(at) ?? 0
  }
}
