const MAX_FOLDERS = 200 // folders

/** The entry that is looked for when a folder comes into view: a hit of the search, or the one that was
 *  opened there before. */
export class Arrival {
  #target = $state.raw<{ folder: string; name: string } | null>(null)
  #left = new Map<string, { name: string; row: number }>()

  /** The next view of the folder, or the present one, shows this entry. */
  expect(folder: string, name: string): void {
    this.#target = { folder, name }
  }

  /** Remember from which entry, in which row, a folder was left. */
  leave(folder: string, name: string, row: number): void {
    this.#left.delete(folder)
    this.#left.set(folder, { name, row })
    const [oldest] = this.#left.keys()
    if (this.#left.size > MAX_FOLDERS && oldest !== undefined) this.#left.delete(oldest)
  }

  /** The entry that is expected in the folder, once. */
  take(folder: string): string | null {
    if (this.#target?.folder !== folder) return null
    const { name } = this.#target
    this.#target = null
    return name
  }

  /** From where the folder was left, once. */
  takeLeft(folder: string): { name: string; row: number } | null {
    const left = this.#left.get(folder) ?? null
    this.#left.delete(folder)
    return left
  }
}
