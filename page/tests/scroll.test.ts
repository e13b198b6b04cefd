import { expect, test } from 'vitest'
import { findRows, followTrack, MAX_TRACK_PIXELS, reveal, scale, trackHeight } from '../src/parts/scroll'

const SHORT = { count: 100, rowHeight: 40, viewHeight: 400 }
const LONG = { count: 1_000_000, rowHeight: 40, viewHeight: 800 }
const END = LONG.count * LONG.rowHeight - LONG.viewHeight
const TRACK_END = MAX_TRACK_PIXELS - LONG.viewHeight

test('a short list scrolls as the browser does', () => {
  expect(scale(SHORT)).toBe(1)
  expect(trackHeight(SHORT)).toBe(4000)
  expect(followTrack(SHORT, 0, 0, 1234)).toBe(1234)
})

test('a long list is reached to its end, and a turn of the wheel moves it as far as any', () => {
  expect(trackHeight(LONG)).toBe(MAX_TRACK_PIXELS)
  expect(followTrack(LONG, 0, 0, 100)).toBe(100)
  expect(followTrack(LONG, 0, 0, TRACK_END)).toBeCloseTo(END)
  expect(followTrack(LONG, 5000, 500, 0)).toBe(0)
  expect(followTrack(LONG, 0, 0, TRACK_END / 2)).toBeCloseTo(END / 2)
})

test('the rows in view, with some around them', () => {
  expect(findRows(SHORT, 0, 0)).toEqual([0, 9])
  expect(findRows(SHORT, 405, 2)).toEqual([8, 22])
  expect(findRows(SHORT, 3600, 8)).toEqual([82, 99])
  expect(findRows({ ...SHORT, count: 0 }, 0, 8)).toEqual([0, -1])
  expect(findRows(LONG, END, 0)).toEqual([999_980, 999_999])
})

test('a row is brought into view with the least movement', () => {
  expect(reveal(SHORT, 400, 15)).toBe(400)
  expect(reveal(SHORT, 400, 5)).toBe(200)
  expect(reveal(SHORT, 400, 20)).toBe(440)
})
