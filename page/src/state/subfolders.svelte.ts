import { listFolders, makeFolder } from '../api/files'
import { join } from '../api/paths'
import { asProblem, type Problem } from '../api/problem'
import type { Stores } from './stores'

/** The folders in one folder of the tree, listed as one goes from one to the next. */
export class Subfolders {
  path = $state('/')
  names = $state.raw<readonly string[]>([])
  problem = $state.raw<Problem | null>(null)
  isLoading = $state(false)
  #ending = new AbortController()

  constructor(private stores: Pick<Stores, 'api' | 'folderChanges' | 'passwords'>) {}

  /** Answers whether the folder could be listed. */
  async open(path: string): Promise<boolean> {
    this.#ending.abort()
    this.#ending = new AbortController()
    const { signal } = this.#ending
    this.path = path
    this.names = []
    this.problem = null
    this.isLoading = true
    try {
      const folders = await listFolders(this.stores.api, path, this.stores.passwords.find(path), signal)
      if (!signal.aborted) this.names = folders.map((folder) => folder.name)
    } catch (thrown) {
      if (!signal.aborted) this.problem = asProblem(thrown)
    } finally {
      if (!signal.aborted) this.isLoading = false
    }
    return !this.problem
  }

  /** Make a folder in this one, and go into it. Throws Problem. */
  async make(name: string): Promise<void> {
    const { path } = this
    await makeFolder(this.stores.api, path, name)
    this.stores.folderChanges.tell(path, [name])
    await this.open(join(path, name))
  }

  close(): void {
    this.#ending.abort()
  }
}
