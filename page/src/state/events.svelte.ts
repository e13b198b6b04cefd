import { TASK_KINDS } from '../api/enums'
import { type Event, type EventData, followEvents } from '../api/events'
import type { Stores } from './stores'

const RELOAD_INTERVAL_MS = 1000 // between two listings of a folder that changes all the time
const FIRST_PAUSE_MS = 1000
const LONGEST_PAUSE_MS = 60_000

type TaskListener = (kind: (typeof TASK_KINDS)[number], data: EventData['tasks']) => void

/**
 * The events of the service for the folder in view. A hidden tab has none: browsers keep few connections to one
 * service. Where the service has no events, nothing is told, and the page polls.
 */
export class Events {
  /** True while events come: what they tell need not be polled. */
  isLive = $state(false)
  onTasks: TaskListener = () => {}
  #isSupported = true
  #path: string | null = null
  #stop = new AbortController()
  #reloaded = 0
  #reloading: ReturnType<typeof setTimeout> | undefined

  constructor(private stores: Pick<Stores, 'api' | 'folderChanges' | 'passwords'>) {}

  /** Follow a folder until the returned function is called. One folder is followed at a time. */
  follow(path: string): () => void {
    this.#path = path
    this.#restart()
    document.addEventListener('visibilitychange', this.#restart)
    return () => {
      if (this.#path === path) this.#path = null
      document.removeEventListener('visibilitychange', this.#restart)
      this.#restart()
    }
  }

  readonly #restart = () => {
    this.#stop.abort()
    this.#stop = new AbortController()
    this.isLive = false
    clearTimeout(this.#reloading)
    if (this.#path !== null && this.#isSupported && !document.hidden) void this.#run(this.#path, this.#stop.signal)
  }

  async #run(path: string, signal: AbortSignal): Promise<void> {
    let isAgain = false
    for (let pause = FIRST_PAUSE_MS; !signal.aborted; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
      const outcome = await followEvents(this.stores.api, path, this.stores.passwords.find(path), signal, (event) => {
        if (event.name === 'ready' && isAgain) this.#reload(path) // it may have changed while nothing was told
        if (event.name === 'ready') pause = FIRST_PAUSE_MS
        if (!signal.aborted) this.#tell(path, event)
      })
      if (signal.aborted) return
      this.isLive = false
      isAgain = true
      if (outcome === 'unsupported') this.#isSupported = false
      if (outcome !== 'lost') return
      await new Promise((resolve) => setTimeout(resolve, pause))
    }
  }

  #tell(path: string, event: Event): void {
    this.isLive = event.name !== 'end'
    if (event.name === 'folder' || event.name === 'end') this.#reload(path)
    if (event.name !== 'tasks') return
    const kind = TASK_KINDS.find((name) => name === event.data.kind)
    if (kind) this.onTasks(kind, event.data)
  }

  #reload(path: string): void {
    clearTimeout(this.#reloading)
    const due = Math.max(0, this.#reloaded + RELOAD_INTERVAL_MS - Date.now())
    this.#reloading = setTimeout(() => {
      this.#reloaded = Date.now()
      this.stores.folderChanges.tell(path)
    }, due)
  }
}
