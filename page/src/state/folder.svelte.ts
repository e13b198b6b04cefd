import type { ListOrder } from '../api/files'
import { join } from '../api/paths'
import { Problem } from '../api/problem'
import type { FileObject, Listing, ListReq } from '../api/schema'
import { PAGE_SIZE, type Page, Pages, type Range } from './pages.svelte'
import type { Stores } from './stores'

const MAX_SEARCHED_ENTRIES = 10_000 // entries that are looked through for a name
const MAX_FOLLOWED_ENTRIES = 2_000 // entries of a folder whose rows are all looked at to find some names again

export type Column = 'name' | 'size' | 'modified'
export interface Order {
  column: Column
  descending: boolean
}

/** Return an order as a request says it. */
export function formatOrder(order: Order | null): ListOrder {
  return order ? { order_by: order.column, order_direction: order.descending ? 'desc' : 'asc' } : {}
}

/** The entries of one folder. */
export class Folder {
  readonly path: string
  order = $state.raw<Order | null>(null) // null: as the storage lists them
  #about = $state.raw<Omit<Listing, 'content' | 'total'> | null>(null)
  #pages = new Pages<FileObject>((page, size, signal) => this.#fetch(page, size, signal))

  constructor(
    private stores: Pick<Stores, 'api' | 'passwords'>,
    path: string,
    order: Order | null = null,
  ) {
    this.path = path
    this.order = order
  }

  /** The facts of the folder itself; null until the first entries are loaded. */
  get about(): Omit<Listing, 'content' | 'total'> | null {
    return this.#pages.isHere ? this.#about : null
  }

  get total(): number {
    return this.#pages.total
  }

  get problem(): Problem | null {
    return this.#pages.problem
  }

  /** The entry in a row; undefined while it is not loaded. */
  entry(row: number): FileObject | undefined {
    return this.#pages.at(row)
  }

  /** The entries in the rows, fetched where they are not here. Throws Problem. */
  entries(ranges: readonly Range[]): Promise<FileObject[]> {
    return this.#pages.collect(ranges)
  }

  /** The names that are here, by row. */
  loadedNames(): [row: number, name: string][] {
    return this.#pages.loaded().map(([row, entry]) => [row, entry.name])
  }

  /** Fetch what is missing of the rows from `first` to `last`, which are in view. */
  show(first: number, last: number): Promise<void> {
    return this.#pages.show(first, last)
  }

  /**
   * Ask again for what is in view; `swap` is told at the moment when rows become others. `refresh`: the service is to
   * look at the storage, where it lets the user.
   */
  async reload(refresh: boolean, swap: () => void): Promise<void> {
    const isAsked = refresh && Boolean(this.about?.write)
    await this.#pages.reload((page, size, signal) => this.#fetch(page, size, signal, isAsked), swap)
  }

  /** The rows of the names that are here. */
  rowsOf(names: ReadonlySet<string>): number[] {
    return this.loadedNames().flatMap(([row, name]) => (names.has(name) ? [row] : []))
  }

  /** The rows of the names: in a short folder wherever they are, in a long one as far as they are here. */
  async findRows(names: ReadonlySet<string>): Promise<number[]> {
    const rows = this.rowsOf(names)
    if (rows.length === names.size || this.total === 0 || this.total > MAX_FOLLOWED_ENTRIES) return rows
    await this.#pages.load([[0, this.total - 1]])
    return this.rowsOf(names)
  }

  /** The row of a name, looked for among the first MAX_SEARCHED_ENTRIES entries; -1 when it is not there. Throws Problem. */
  async findRow(name: string): Promise<number> {
    const here = this.loadedNames().find(([, other]) => other === name)
    if (here) return here[0]
    if (this.total <= PAGE_SIZE) return -1
    const entries = await this.entries([[0, Math.min(this.total, MAX_SEARCHED_ENTRIES) - 1]])
    return entries.findIndex((entry) => entry.name === name)
  }

  /** The row of a name that was in `row` when it was seen last; -1 when it is not found. Throws Problem. */
  async findRowNear(name: string, row: number): Promise<number> {
    const last = Math.min(row, this.total - 1)
    const [entry] = last < 0 ? [] : await this.entries([[last, last]])
    return entry?.name === name ? last : this.findRow(name)
  }

  pathOf(entry: FileObject): string {
    return join(this.path, entry.name)
  }

  close(): void {
    this.#pages.close()
  }

  async #fetch(page: number, size: number, signal: AbortSignal, refresh = false): Promise<Page<FileObject>> {
    const body = {
      path: this.path,
      password: this.stores.passwords.find(this.path),
      page: page + 1,
      per_page: size,
      refresh,
      ...formatOrder(this.order),
    }
    const { content, total, ...about } = await this.#list(body, signal)
    if (!signal.aborted) this.#about = about
    return { rows: content ?? [], total }
  }

  /** A folder that is too large to be sorted is listed as its storage does. */
  async #list(body: ListReq, signal: AbortSignal): Promise<Listing> {
    try {
      return await this.stores.api.call('post', '/api/fs/list', { body, signal })
    } catch (thrown) {
      if (!body.order_by || !(thrown instanceof Problem) || thrown.word !== 'TooLarge') throw thrown
      this.order = null
      const { order_by: _by, order_direction: _direction, ...rest } = body
      return await this.stores.api.call('post', '/api/fs/list', { body: rest, signal })
    }
  }
}
