import { join } from '../api/paths'
import { Problem } from '../api/problem'
import { findKind, type Kind } from '../parts/kinds'
import { formatOrder, type Order } from './folder.svelte'
import type { Stores } from './stores'

const PAGE = 1000
const MAX_PAGES = 10 // of a longer folder the files further down have no neighbours

/** A file of a folder, with its viewer. */
export interface Neighbour {
  path: string
  name: string
  kind: Kind
}

interface KnownFolder {
  folder: string
  order: string
  files: Promise<Neighbour[]>
  ignore: () => void
}

/** The files beside a file, in the order of its folder's list. The folder that was asked for last is kept. */
export class Neighbours {
  #known: KnownFolder | undefined

  constructor(private stores: Pick<Stores, 'api' | 'folderChanges' | 'folderLayout' | 'knownFiles' | 'passwords'>) {}

  /** The files before and after a file in its folder, '' where there is none; with `kind`, those of that kind. Throws Problem. */
  async find(folder: string, path: string, kind?: Kind): Promise<{ previous: string; next: string }> {
    const files = (await this.list(folder, path)).filter((file) => kind === undefined || file.kind === kind)
    const index = files.findIndex((file) => file.path === path)
    const [previous = '', next = ''] = index < 0 ? [] : [files[index - 1]?.path, files[index + 1]?.path]
    for (const neighbour of [previous, next]) if (neighbour) this.stores.knownFiles.add(neighbour)
    return { previous, next }
  }

  /** The files of a folder, with `path` if it is among the first MAX_PAGES * PAGE. Throws Problem. */
  async list(folder: string, path: string): Promise<Neighbour[]> {
    const isNew = this.#known?.folder !== folder || this.#known.order !== JSON.stringify(this.stores.folderLayout.order)
    const files = await this.#read(folder)
    if (isNew || files.some((file) => file.path === path)) return files
    this.#forget()
    return this.#read(folder) // it came later
  }

  #read(folder: string): Promise<Neighbour[]> {
    const order = JSON.stringify(this.stores.folderLayout.order)
    if (this.#known?.folder === folder && this.#known.order === order) return this.#known.files
    this.#forget()
    const forget = () => this.#forget()
    const files = this.#fetchAll(folder, this.stores.folderLayout.order)
    this.#known = { folder, order, files, ignore: this.stores.folderChanges.follow(folder, forget) }
    files.catch(forget)
    return files
  }

  #forget(): void {
    this.#known?.ignore()
    this.#known = undefined
  }

  async #fetchAll(folder: string, order: Order | null): Promise<Neighbour[]> {
    const files: Neighbour[] = []
    for (let page = 1; page <= MAX_PAGES; page++) {
      const { content, total } = await this.#fetchPage(folder, order, page)
      for (const { name, is_dir, type } of content ?? []) {
        if (!is_dir) files.push({ path: join(folder, name), name, kind: findKind(name, type, []) })
      }
      if (page * PAGE >= total) break
    }
    return files
  }

  /** A folder that is too large to be sorted is listed as its storage does. */
  async #fetchPage(folder: string, order: Order | null, page: number) {
    const body = { path: folder, password: this.stores.passwords.find(folder), page, per_page: PAGE, refresh: false }
    if (!order) return await this.stores.api.call('post', '/api/fs/list', { body })
    try {
      return await this.stores.api.call('post', '/api/fs/list', { body: { ...body, ...formatOrder(order) } })
    } catch (thrown) {
      if (!(thrown instanceof Problem) || thrown.word !== 'TooLarge') throw thrown
      return await this.stores.api.call('post', '/api/fs/list', { body })
    }
  }
}
