import { asProblem, Problem } from '../api/problem'
import { Limiter } from './limiter'

export const PAGE_SIZE = 200 // rows
export const MAX_CACHED_PAGES = 50 // pages in memory; those far from the view are forgotten
export const BLOCK = 1000 // rows that are asked for at once where many are wanted: the most that a search gives
export const REQUEST_CONCURRENCY = 4 // requests

export type Range = readonly [first: number, last: number]

export interface Page<T> {
  rows: readonly T[]
  total: number
}

/** Answers a page (from 0) of `size` rows. Throws Problem. */
export type FetchPage<T> = (page: number, size: number, signal: AbortSignal) => Promise<Page<T>>

/** The rows of a list of any length, fetched by the page as they come into view. */
export class Pages<T> {
  total = $state(0)
  isHere = $state(false) // whether the first answer has come
  problem = $state.raw<Problem | null>(null)
  #pages = $state.raw<ReadonlyMap<number, readonly T[]>>(new Map())
  #fetchPage: FetchPage<T>
  #underWay = new Map<number, Promise<void>>()
  #needed = new Set<number>() // pages that are wanted though they are not in view
  #view: Range = [0, 0]
  #limiter = new Limiter(REQUEST_CONCURRENCY)
  #reloading = new AbortController()
  #closing = new AbortController()

  constructor(fetchPage: FetchPage<T>) {
    this.#fetchPage = fetchPage
  }

  /** The item in a row; undefined while it is not loaded. */
  at(row: number): T | undefined {
    return this.#pages.get(pageOf(row))?.[row % PAGE_SIZE]
  }

  /** The rows that are here, in ascending order. */
  loaded(): [row: number, value: T][] {
    return [...this.#pages]
      .sort(([a], [b]) => a - b)
      .flatMap(([page, rows]) => rows.map((value, index): [number, T] => [page * PAGE_SIZE + index, value]))
  }

  /** Fetch what is missing of the rows from `first` to `last`, which are in view from now on. */
  async show(first: number, last: number): Promise<void> {
    this.#view = [first, last]
    await Promise.all(listPages([this.#view]).map((page) => this.#load(page)))
  }

  /** Fetch what is missing of the rows, and keep it as far as there is room. */
  async load(ranges: readonly Range[]): Promise<void> {
    const pages = listPages(ranges).slice(0, MAX_CACHED_PAGES)
    for (const page of pages) this.#needed.add(page)
    await Promise.all(pages.map((page) => this.#load(page)))
    for (const page of pages) this.#needed.delete(page)
  }

  /** All rows of the ranges, however many. Throws Problem. */
  async collect(ranges: readonly Range[]): Promise<T[]> {
    const ending = new AbortController()
    const signal = AbortSignal.any([this.#closing.signal, ending.signal])
    try {
      const parts = await Promise.all(splitInBlocks(ranges).map((range) => this.#collectBlock(range, signal)))
      return parts.flat()
    } catch (thrown) {
      throw signal.aborted ? new Problem('offline') : thrown
    } finally {
      ending.abort()
    }
  }

  /**
   * Ask again for what is in view; rows stay until the new ones are here, and `swap` is told at that moment. `ask`
   * answers the first page in place of the usual.
   */
  async reload(ask: FetchPage<T> = this.#fetchPage, swap = () => {}): Promise<void> {
    this.#reloading.abort()
    this.#reloading = new AbortController()
    this.#underWay.clear()
    const { signal } = this.#reloading
    const [first, last] = this.#view
    const page = pageOf(first)
    const answer = await this.#try(signal, () => ask(page, PAGE_SIZE, signal))
    if (!answer) return
    this.#take(answer, new Map([[page, answer.rows]]))
    swap()
    await this.show(first, Math.max(first, Math.min(last, this.total - 1)))
  }

  get isClosed(): boolean {
    return this.#closing.signal.aborted
  }

  close(): void {
    this.#reloading.abort()
    this.#closing.abort()
  }

  #load(page: number): Promise<void> {
    if (this.#pages.has(page)) return Promise.resolve()
    const known = this.#underWay.get(page)
    if (known) return known
    const { signal } = this.#reloading
    const work = async () => {
      if (!signal.aborted && this.#isNeeded(page)) await this.#fetch(page, signal)
    }
    const loading = this.#limiter.run(work).finally(() => {
      if (this.#underWay.get(page) === loading) this.#underWay.delete(page)
    })
    this.#underWay.set(page, loading)
    return loading
  }

  #isNeeded(page: number): boolean {
    return this.#needed.has(page) || (page >= pageOf(this.#view[0]) && page <= pageOf(this.#view[1]))
  }

  async #fetch(page: number, signal: AbortSignal): Promise<void> {
    const answer = await this.#try(signal, () => this.#fetchPage(page, PAGE_SIZE, signal))
    if (!answer) return
    const pages = new Map(this.#pages).set(page, answer.rows)
    if (pages.size > MAX_CACHED_PAGES) pages.delete(findFarthest([...pages.keys()], pageOf(this.#view[0])))
    this.#take(answer, pages)
  }

  #take(answer: Page<T>, pages: ReadonlyMap<number, readonly T[]>): void {
    this.#pages = pages
    this.total = answer.total
    this.isHere = true
    this.problem = null
  }

  /** The answer; null when it failed or is not wanted any more. */
  async #try(signal: AbortSignal, ask: () => Promise<Page<T>>): Promise<Page<T> | null> {
    try {
      const answer = await ask()
      return signal.aborted ? null : answer
    } catch (thrown) {
      if (!signal.aborted) this.problem = asProblem(thrown)
      return null
    }
  }

  async #collectBlock([first, last]: Range, signal: AbortSignal): Promise<readonly T[]> {
    const known = Array.from({ length: last - first + 1 }, (_, index) => this.at(first + index))
    if (known.every((value) => value !== undefined)) return known as T[]
    const start = Math.floor(first / BLOCK) * BLOCK
    const { rows } = await this.#limiter.run(() => {
      signal.throwIfAborted()
      return this.#fetchPage(start / BLOCK, BLOCK, signal)
    })
    return rows.slice(first - start, last - start + 1)
  }
}

function pageOf(row: number): number {
  return Math.floor(row / PAGE_SIZE)
}

function listPages(ranges: readonly Range[]): number[] {
  const pages = new Set<number>()
  for (const [first, last] of ranges) {
    for (let page = pageOf(first); page <= pageOf(last); page++) pages.add(page)
  }
  return [...pages]
}

function splitInBlocks(ranges: readonly Range[]): Range[] {
  return ranges.flatMap(([first, last]) => {
    const parts: Range[] = []
    for (let start = first; start <= last; start = (Math.floor(start / BLOCK) + 1) * BLOCK) {
      parts.push([start, Math.min(last, (Math.floor(start / BLOCK) + 1) * BLOCK - 1)])
    }
    return parts
  })
}

function findFarthest(pages: readonly number[], from: number): number {
  return pages.reduce((farthest, page) => (Math.abs(page - from) > Math.abs(farthest - from) ? page : farthest))
}
