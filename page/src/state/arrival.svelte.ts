const MOST = 200 // folders

/** Which entry of a folder is looked for when the folder comes into view: a hit of the search, or the one that was
 *  opened there before. */
class Arrival {
  #wanted = $state.raw<{ folder: string; name: string } | null>(null)
  #left = new Map<string, string>()

  /** The next view of the folder, or the present one, shows this entry. */
  expect(folder: string, name: string): void {
    this.#wanted = { folder, name }
  }

  /** Remember from which entry a folder was left. */
  leave(folder: string, name: string): void {
    this.#left.delete(folder)
    this.#left.set(folder, name)
    const [oldest] = this.#left.keys()
    if (this.#left.size > MOST && oldest !== undefined) this.#left.delete(oldest)
  }

  /** The entry that is expected in the folder, once. */
  take(folder: string): string | null {
    if (this.#wanted?.folder !== folder) return null
    const { name } = this.#wanted
    this.#wanted = null
    return name
  }

  /** From where the folder was left, once. */
  takeLeft(folder: string): string | null {
    const name = this.#left.get(folder) ?? null
    this.#left.delete(folder)
    return name
  }
}

export const arrival = new Arrival()
