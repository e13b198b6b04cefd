import type { Session } from '../session.svelte'
import { readStored, writeStored } from './stored'

/** An entry of the tree that is reached from the frame. */
export interface SavedEntry {
  path: string
  isFolder: boolean
}

/** A short list of entries that is kept on this device for each user. */
export class SavedEntries {
  #lists = $state.raw<Record<string, readonly SavedEntry[]>>({})

  /** `max`: entries; the oldest make room. */
  constructor(
    private session: Session,
    private name: string,
    private max: number,
  ) {}

  get list(): readonly SavedEntry[] {
    return this.#lists[this.#key] ?? readStored(this.#key, isList) ?? []
  }

  has(path: string): boolean {
    return this.list.some((entry) => entry.path === path)
  }

  /** Put an entry at the begin of the list. */
  add(entry: SavedEntry): void {
    this.#set([entry, ...this.list.filter(({ path }) => path !== entry.path)].slice(0, this.max))
  }

  remove(path: string): void {
    this.#set(this.list.filter((entry) => entry.path !== path))
  }

  clear(): void {
    this.#set([])
  }

  get #key(): string {
    return `mangrove.${this.name}.${this.session.user?.username ?? ''}`
  }

  #set(list: readonly SavedEntry[]): void {
    this.#lists = { ...this.#lists, [this.#key]: list }
    writeStored(this.#key, list)
  }
}

function isList(value: unknown): value is SavedEntry[] {
  return Array.isArray(value) && value.every((entry) => typeof entry?.path === 'string' && 'isFolder' in entry)
}
