import type { FileObject } from '../../api/schema'
import type { Stores } from '../stores'

const MAX_STORAGES = 100
const MAX_AGE_MS = 60_000

/** The folders of the root: the storages, with their free space where it is known. */
export class RootFolders {
  list = $state.raw<readonly FileObject[]>([])
  #loaded = 0 // milliseconds since the epoch

  constructor(private stores: Pick<Stores, 'api' | 'folderChanges' | 'passwords'>) {}

  /** Load now, again when the root changes, and when the user comes back after a while. Returns the function that ends it. */
  follow(): () => void {
    const look = () => {
      if (document.visibilityState === 'visible' && Date.now() - this.#loaded > MAX_AGE_MS) void this.load()
    }
    void this.load()
    document.addEventListener('visibilitychange', look)
    const ignore = this.stores.folderChanges.follow('/', () => void this.load())
    return () => {
      ignore()
      document.removeEventListener('visibilitychange', look)
    }
  }

  async load(): Promise<void> {
    this.#loaded = Date.now()
    const body = {
      path: '/',
      password: this.stores.passwords.find('/'),
      page: 1,
      per_page: MAX_STORAGES,
      refresh: false,
    }
    try {
      const { content } = await this.stores.api.call('post', '/api/fs/list', { body })
      this.list = (content ?? []).filter((entry) => entry.is_dir)
    } catch {
      // the list itself says why; what is known stays
    }
  }
}
