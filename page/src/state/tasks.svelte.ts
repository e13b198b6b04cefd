import { TASK_KINDS } from '../api/enums'
import { asProblem, type Problem } from '../api/problem'
import { list, read, type Task, type TaskKind } from '../api/tasks'
import type { Stores } from './stores'
import { findEnded, findJustEnded, listDone, NEXT, tellFolders } from './tasks/follow'
import { parseName } from './tasks/names'
import { TaskSpeeds } from './tasks/speeds'

export const MAX_UNFINISHED_TASKS = 200 // of a kind, the oldest: they are asked for again and again
const EVERY = { open: 1000, closed: 2000, idle: 4000, live: 15_000 } // ms; live: while events tell the progress
const MAX_REPORTED_TASKS = 100 // of a kind, whose progress events tell
const IDLE_POLL_ROUNDS = 4
const FREQUENT_POLL_MAX_TASKS = 1000 // finished tasks of a kind, which may be read often

/** The tasks that this user may see: an administrator sees all. */
export class Tasks {
  isOpen = $state(false) // whether the panel is shown
  undone = $state.raw<Partial<Record<TaskKind, readonly Task[]>>>({})
  done = $state.raw<Partial<Record<TaskKind, readonly Task[]>>>({})
  problem = $state.raw<Problem | null>(null)
  isLoaded = $state(false)
  readonly speeds = new TaskSpeeds()
  onUploadsEnded = () => {} // called when an event tells that uploads have ended
  #watched = new Map<TaskKind, Set<string>>() // kinds that are followed while the panel is closed, and for which folders
  #outdated = new Set<TaskKind>(TASK_KINDS) // kinds whose finished tasks are to be read anew
  #ended = new Set<string>() // tasks of which it was said
  #owner = ''
  #rounds = 0
  #timer: ReturnType<typeof setTimeout> | undefined
  #round: Promise<void> | null = null

  constructor(private stores: Pick<Stores, 'api' | 'events' | 'folderChanges' | 'language' | 'session' | 'toasts'>) {
    stores.events.onTasks = (kind, data) => {
      const rows = data.tasks.map((row) => read(kind, row))
      if (kind === 'upload' && data.ended.length > 0) this.onUploadsEnded()
      void this.take(kind, rows, data.ended.length > 0)
    }
  }

  /** The known number of unfinished tasks of this user. */
  get underWay(): number {
    return TASK_KINDS.reduce((sum, kind) => sum + this.#own(kind).length, 0)
  }

  /** A task of that kind may have been opened, which changes a folder: follow it to its end. */
  watch(kind: TaskKind, folder: string): void {
    this.#greet()
    this.#watched.set(kind, (this.#watched.get(kind) ?? new Set()).add(folder))
    this.#outdated.add(kind)
    void this.refresh()
  }

  /** Ask now, and from then on as long as the panel is open or something is under way. */
  async refresh(): Promise<void> {
    await this.#round // what it asked may be from before what is wanted now
    clearTimeout(this.#timer)
    this.#round ??= this.#ask().finally(() => {
      this.#round = null
      this.#plan()
    })
    await this.#round
  }

  /** Have the finished tasks read anew, as they were changed here. */
  async reload(kinds: Iterable<TaskKind> = TASK_KINDS): Promise<void> {
    for (const kind of kinds) this.#outdated.add(kind)
    await this.refresh()
  }

  /** Take what an event tells of a kind. What has ended is asked for once more, to say how. */
  async take(kind: TaskKind, rows: readonly Task[], hasEnded: boolean): Promise<void> {
    this.#greet()
    const before = this.undone[kind] ?? []
    const changed = new Map(rows.map((task) => [task.id, task]))
    const known = before.map((task) => changed.get(task.id) ?? task)
    const added = rows.filter(({ id }) => !before.some((task) => task.id === id))
    const now = [...known, ...added]
    this.speeds.observe(before, now, performance.now())
    this.undone = { ...this.undone, [kind]: now }
    if (this.#own(kind).length > 0 && !this.#watched.has(kind)) this.#watched.set(kind, new Set())
    if (hasEnded) await this.refresh()
  }

  #own(kind: TaskKind): readonly Task[] {
    return (this.undone[kind] ?? []).filter(({ creator }) => creator === this.stores.session.user?.username)
  }

  async #ask(): Promise<void> {
    this.#greet()
    if (!this.stores.session.user || this.stores.session.isGuest) return
    try {
      const kinds = this.isOpen ? TASK_KINDS : [...this.#watched.keys()]
      await Promise.all(kinds.map((kind) => this.#follow(kind)))
      if (this.isOpen) await this.#readDone()
      this.problem = null
    } catch (thrown) {
      this.problem = asProblem(thrown)
    }
  }

  async #follow(kind: TaskKind): Promise<void> {
    const before = this.undone[kind] ?? []
    const now = await list(this.stores.api, kind, 'undone', 1, MAX_UNFINISHED_TASKS)
    this.speeds.observe(before, now, performance.now())
    this.undone = { ...this.undone, [kind]: now }
    const ended = before.length > 0 ? await findEnded(this.stores.api, before, now) : []
    for (const task of ended) this.#end(task)
    const next = NEXT[kind]
    if (ended.length > 0 && next) this.#watched.set(next, this.#watched.get(next) ?? new Set())
    if (ended.length > 0) this.#outdated.add(kind)
    if (this.#own(kind).length === 0) await this.#unwatch(kind)
  }

  /** Nothing of the kind is under way any more; some may have ended before they were seen. */
  async #unwatch(kind: TaskKind): Promise<void> {
    const folders = this.#watched.get(kind)
    if (!folders) return
    this.#watched.delete(kind)
    for (const task of await findJustEnded(this.stores.api, kind)) this.#end(task)
    for (const folder of folders) this.stores.folderChanges.tell(folder)
  }

  #end(task: Task): void {
    if (this.#ended.has(task.id)) return
    this.#ended.add(task.id)
    const base = this.stores.session.user?.base_path ?? '/'
    tellFolders(this.stores.folderChanges, task, base)
    const isToSay = task.state === 'failed' && !this.isOpen && task.creator === this.stores.session.user?.username
    const { t } = this.stores.language
    if (isToSay)
      this.stores.toasts.show(
        'failed',
        t().tasks.hasFailed(t().tasks.kinds[task.kind], parseName(task.name, base).title),
      )
  }

  async #readDone(): Promise<void> {
    const isDue = this.underWay === 0 || this.#rounds++ % IDLE_POLL_ROUNDS === 0 // short ones are never seen under way
    for (const kind of TASK_KINDS)
      if (isDue && (this.done[kind]?.length ?? 0) < FREQUENT_POLL_MAX_TASKS) this.#outdated.add(kind)
    const kinds = [...this.#outdated]
    this.#outdated.clear()
    const lists = await Promise.all(kinds.map((kind) => listDone(this.stores.api, kind)))
    this.done = { ...this.done, ...Object.fromEntries(kinds.map((kind, index) => [kind, lists[index]])) }
    this.isLoaded = true
  }

  #plan(): void {
    const isUnderWay = TASK_KINDS.some((kind) => this.undone[kind]?.length)
    if (!this.isOpen && this.#watched.size === 0) return
    const isTold =
      this.stores.events.isLive && TASK_KINDS.every((kind) => (this.undone[kind]?.length ?? 0) < MAX_REPORTED_TASKS)
    const pause = isTold ? EVERY.live : isUnderWay ? (this.isOpen ? EVERY.open : EVERY.closed) : EVERY.idle
    this.#timer = setTimeout(() => void this.refresh(), pause)
  }

  /** Forget what another user saw. */
  #greet(): void {
    const username = this.stores.session.user?.username ?? ''
    if (username === this.#owner) return
    this.#owner = username
    this.undone = this.done = {}
    this.#watched.clear()
    this.#outdated = new Set(TASK_KINDS)
    this.isLoaded = false
    this.problem = null
  }
}
