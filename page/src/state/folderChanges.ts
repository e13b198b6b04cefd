type Listener = (names: readonly string[]) => void

/** Tells the views of a folder that the page has changed what is in it. */
export class FolderChanges {
  #listeners = new Map<string, Set<Listener>>()

  /** Call `listener` when the folder has changed; returns what ends it. `names` are new there, or none. */
  follow(path: string, listener: Listener): () => void {
    const own = this.#listeners.get(path) ?? new Set()
    this.#listeners.set(path, own.add(listener))
    return () => {
      own.delete(listener)
      if (own.size === 0) this.#listeners.delete(path)
    }
  }

  /** Tell that the page has changed what is in a folder: it is listed again where it is in view. */
  tell(path: string, names: readonly string[] = []): void {
    for (const listener of this.#listeners.get(path) ?? []) listener(names)
  }
}
