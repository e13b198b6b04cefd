const MAX_KNOWN_FILES = 10_000

/** Paths of the tree that were listed as files: opening one need not ask first whether it is a folder. */
export class KnownFiles {
  #paths = new Set<string>()

  add(path: string): void {
    if (this.#paths.size >= MAX_KNOWN_FILES) this.#paths.clear()
    this.#paths.add(path)
  }

  has(path: string): boolean {
    return this.#paths.has(path)
  }

  delete(path: string): void {
    this.#paths.delete(path)
  }
}
