import { listFirst } from '../../api/files'
import { baseName, parent } from '../../api/paths'
import { asProblem, type Problem } from '../../api/problem'
import { type OnConflict, transfer } from '../../api/transfers'
import { formatName } from '../../text/format'
import type { Stores } from '../stores'
import type { UndoStack } from './undo'

export type Verb = 'move' | 'copy'
const MAX_COMPARED_ENTRIES = 10_000 // entries of the target among which taken names are looked for

/** Entries of one folder that are held: dragged, cut or copied. */
export interface HeldEntries {
  verb: Verb
  folder: string
  count: number
  names: () => Promise<readonly string[]>
}

/** A transfer that waits for a choice, as names are taken at its target. */
export interface Clash {
  verb: Verb
  from: string
  to: string
  names: readonly string[]
  taken: readonly string[]
  hasFolders: boolean
}

/** Moves and copies entries by hand: by dragging, and by cutting and pasting. */
export class Mover {
  /** The entries that were cut or copied. */
  clipboard = $state.raw<HeldEntries | null>(null)
  /** The entries that are dragged. */
  dragged = $state.raw<HeldEntries | null>(null)
  clash = $state.raw<Clash | null>(null)

  constructor(
    private stores: Stores,
    private undo: UndoStack,
  ) {}

  hold(entries: HeldEntries): void {
    this.clipboard = entries
    this.stores.toasts.show(
      'done',
      this.stores.language
        .t()
        .frame.moving.onClipboard[entries.verb](entries.count, this.stores.language.formatCount(entries.count)),
    )
  }

  async paste(to: string): Promise<void> {
    const entries = this.clipboard
    if (!entries) return this.stores.toasts.show('failed', this.stores.language.t().frame.moving.nothingToPaste)
    if (entries.verb === 'move') this.clipboard = null
    await this.carry(entries, to)
  }

  /** Move or copy entries to a folder; asks when names are taken there. */
  async carry({ verb, folder, names }: HeldEntries, to: string): Promise<void> {
    try {
      const list = await names()
      if (verb === 'move' && folder === to) return
      if (list.some((name) => isInside(to, folder, name)))
        return this.stores.toasts.show('failed', this.stores.language.t().frame.moving.inside)
      await this.#run(verb, folder, to, list, folder === to ? 'keepBoth' : '')
    } catch (thrown) {
      this.#say(asProblem(thrown))
    }
  }

  /** Continue the transfer that asks; '' gives it up. */
  async answer(choice: OnConflict | ''): Promise<void> {
    const clash = this.clash
    this.clash = null
    if (!clash || !choice) return
    try {
      await this.#run(clash.verb, clash.from, clash.to, clash.names, choice)
    } catch (thrown) {
      this.#say(asProblem(thrown))
    }
  }

  async #run(
    verb: Verb,
    from: string,
    to: string,
    names: readonly string[],
    onConflict: OnConflict | '',
  ): Promise<void> {
    const { followTasks, opensTask } = await import('../../views/files/dialogs/started')
    const place = formatName(baseName(to)) || this.stores.language.t().files.home
    const password = this.stores.passwords.find(from) || this.stores.passwords.find(to)
    let isTask: boolean
    try {
      isTask = await opensTask(this.stores, verb, () =>
        transfer(this.stores.api, verb, { from, to, names, password, onConflict }, () => {}),
      )
    } catch (thrown) {
      if (asProblem(thrown).kind !== 'exists' || onConflict) throw thrown
      await this.#ask(verb, from, to, names, thrown)
      return
    }
    if (isTask)
      return followTasks(
        this.stores,
        verb,
        verb === 'move' ? [to, from] : [to],
        this.stores.language.t()[verb].begun(this.stores.language.formatCount(names.length), place),
      )
    this.stores.folderChanges.tell(to, names)
    if (verb === 'move') this.stores.folderChanges.tell(from)
    this.#tell(verb, from, to, names, place, onConflict)
  }

  #tell(verb: Verb, from: string, to: string, names: readonly string[], place: string, onConflict: string): void {
    const text = this.stores.language.t().frame.moving
    const sentence = (verb === 'move' ? text.moved : text.copied)(
      names.length,
      this.stores.language.formatCount(names.length),
      place,
    )
    if (verb === 'copy' || onConflict) {
      this.stores.toasts.show('done', sentence)
      return
    }
    this.offerBack(from, to, names, sentence)
  }

  /** Say that entries were moved, with a button that moves them back. */
  offerBack(from: string, to: string, names: readonly string[], sentence: string): void {
    const back = () => void this.#moveBack(to, from, names)
    this.undo.remember(back)
    this.stores.toasts.show('done', sentence, {
      text: this.stores.language.t().trash.undo,
      run: () => this.undo.run(back),
    })
  }

  async #moveBack(from: string, to: string, names: readonly string[]): Promise<void> {
    try {
      const password = this.stores.passwords.find(from)
      await transfer(this.stores.api, 'move', { from, to, names, password, onConflict: '' }, () => {})
      this.stores.folderChanges.tell(from)
      this.stores.folderChanges.tell(to, names)
      this.stores.toasts.show('done', this.stores.language.t().frame.moving.movedBack)
    } catch (thrown) {
      this.#say(asProblem(thrown))
    }
  }

  async #ask(verb: Verb, from: string, to: string, names: readonly string[], thrown: unknown): Promise<void> {
    const there = await listFirst(this.stores.api, to, this.stores.passwords.find(to), MAX_COMPARED_ENTRIES)
    const byName = new Map(there.map((entry) => [entry.name, entry]))
    const taken = names.filter((name) => byName.has(name))
    if (taken.length === 0) throw thrown
    this.clash = { verb, from, to, names, taken, hasFolders: taken.some((name) => byName.get(name)?.is_dir) }
  }

  #say({ kind, message }: Problem): void {
    this.stores.toasts.show('failed', message || this.stores.language.t().problems[kind])
  }
}

/** True if the folder is the entry, or below it. */
function isInside(folder: string, parentFolder: string, name: string): boolean {
  for (let path = folder; path !== '/'; path = parent(path)) {
    if (baseName(path) === name && parent(path) === parentFolder) return true
  }
  return false
}
