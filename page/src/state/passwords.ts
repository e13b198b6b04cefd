import { ancestors } from '../api/paths'

/** Passwords of folders that were typed in, in memory only. One holds for the folders below, until they have another. */
export class FolderPasswords {
  #known = new Map<string, string>()

  find(path: string): string {
    const owner = ancestors(path).findLast((folder) => this.#known.has(folder))
    return owner === undefined ? '' : (this.#known.get(owner) ?? '')
  }

  set(path: string, password: string): void {
    this.#known.set(path, password)
  }

  clear(): void {
    this.#known.clear()
  }
}
