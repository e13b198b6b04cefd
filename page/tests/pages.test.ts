import { expect, test } from 'vitest'
import { Problem } from '../src/api/problem'
import {
  BLOCK,
  type FetchPage,
  MAX_CACHED_PAGES,
  PAGE_SIZE,
  Pages,
  REQUEST_CONCURRENCY,
} from '../src/state/pages.svelte'

const MANY = 1_000_000

/** A list of numbers whose answers are let go by hand, or at once. */
function invent(total = MANY, isQuick = true) {
  const requested: number[] = []
  const waiting: (() => void)[] = []
  const state = { running: 0, most: 0, change: 0 }
  const fetchPage: FetchPage<number> = async (page, size) => {
    requested.push(page)
    state.most = Math.max(state.most, ++state.running)
    await (isQuick ? Promise.resolve() : new Promise<void>((resolve) => waiting.push(resolve)))
    state.running--
    const start = page * size
    const count = Math.max(0, Math.min(size, total - start))
    return { rows: Array.from({ length: count }, (_, index) => start + index + state.change), total }
  }
  return { pages: new Pages(fetchPage), requested, waiting, state }
}

test('what is in view is fetched by the page, once', async () => {
  const { pages, requested } = invent()
  await pages.show(0, 10)
  await pages.show(150, 250)
  expect(requested).toEqual([0, 1])
  expect([pages.total, pages.at(250), pages.at(400)]).toEqual([MANY, 250, undefined])
})

test('few requests are under way, the latest goes first, and what is out of view again is not asked for', async () => {
  const { pages, requested, waiting, state } = invent(MANY, false)
  const shown = Array.from({ length: 20 }, (_, page) => pages.show(page * PAGE_SIZE, page * PAGE_SIZE + 10))
  for (let turn = 0; turn < 10; turn++) {
    for (const go of waiting.splice(0)) go()
    await new Promise((resolve) => setTimeout(resolve))
  }
  await Promise.all(shown)
  expect(state.most).toBe(REQUEST_CONCURRENCY)
  expect(requested).toEqual([0, 1, 2, 3, 19])
  expect(pages.at(19 * PAGE_SIZE)).toBe(19 * PAGE_SIZE)
})

test('a long way through the list keeps a bounded number of pages, those near the view', async () => {
  const { pages } = invent()
  for (let page = 0; page < 3 * MAX_CACHED_PAGES; page++) await pages.show(page * PAGE_SIZE, page * PAGE_SIZE + 20)
  expect(pages.loaded()).toHaveLength(MAX_CACHED_PAGES * PAGE_SIZE)
  expect(pages.at(0)).toBeUndefined()
  expect(pages.at((3 * MAX_CACHED_PAGES - 2) * PAGE_SIZE)).toBeDefined()
})

test('all of a million rows are collected in blocks, few at once, and none is kept', async () => {
  const { pages, requested, state } = invent()
  await pages.show(0, 0)
  const rows = await pages.collect([[0, MANY - 1]])
  expect(rows).toHaveLength(MANY)
  expect(rows.every((value, row) => value === row)).toBe(true)
  expect(requested).toHaveLength(1 + MANY / BLOCK)
  expect(state.most).toBe(REQUEST_CONCURRENCY)
  expect(pages.loaded()).toHaveLength(PAGE_SIZE)
})

test('rows here and there are collected in their order', async () => {
  const { pages } = invent()
  expect(
    await pages.collect([
      [3, 4],
      [BLOCK - 1, BLOCK],
      [500_000, 500_000],
    ]),
  ).toEqual([3, 4, BLOCK - 1, BLOCK, 500_000])
})

test('rows stay until the new ones are here, and the moment is told', async () => {
  const { pages, state } = invent(5)
  await pages.show(0, 4)
  state.change = 100
  const reloading = pages.reload(undefined, () => expect(pages.at(4)).toBe(104))
  expect(pages.at(4)).toBe(4)
  await reloading
  expect(pages.at(4)).toBe(104)
})

test('what went wrong is kept, and gone when it went right', async () => {
  let isBroken = true
  const pages = new Pages<number>(async () => {
    if (isBroken) throw new Problem('busy')
    return { rows: [1], total: 1 }
  })
  await pages.show(0, 0)
  expect([pages.problem?.kind, pages.isHere]).toEqual(['busy', false])
  await expect(pages.collect([[0, 0]])).rejects.toThrow(Problem)
  isBroken = false
  await pages.show(0, 0)
  expect([pages.problem, pages.at(0)]).toEqual([null, 1])
})
