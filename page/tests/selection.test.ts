import { describe, expect, test } from 'vitest'
import * as select from '../src/state/selection'

function build(...rows: number[]): select.Selection {
  return rows.reduce(select.toggle, select.NOTHING)
}

describe('clicks', () => {
  test('a click selects one row, ctrl adds and takes away, shift selects a range', () => {
    const first = select.click(build(3, 9), 5)
    expect(first.ranges).toEqual([[5, 5]])
    const two = select.click(first, 8, { ctrl: true })
    expect(two.ranges).toEqual([
      [5, 5],
      [8, 8],
    ])
    expect(select.click(two, 5, { ctrl: true }).ranges).toEqual([[8, 8]])
    expect(select.click(two, 2, { shift: true }).ranges).toEqual([[2, 8]])
    expect(select.click(two, 10, { shift: true, ctrl: true }).ranges).toEqual([
      [5, 5],
      [8, 10],
    ])
  })
  test('neighbours become one range, and a row in the middle splits it', () => {
    expect(build(1, 3, 2).ranges).toEqual([[1, 3]])
    expect(build(1, 3, 2, 2).ranges).toEqual([
      [1, 1],
      [3, 3],
    ])
  })
})

describe('keys', () => {
  test('an arrow moves the selection, with shift from the anchor, with ctrl only the focus', () => {
    const start = select.selectOnly(4)
    expect(select.moveTo(start, 5)).toEqual(select.selectOnly(5))
    const longer = select.moveTo(select.moveTo(start, 5, { shift: true }), 6, { shift: true })
    expect(longer).toEqual({ ranges: [[4, 6]], focus: 6, anchor: 4 })
    expect(select.moveTo(longer, 3, { shift: true }).ranges).toEqual([[3, 4]])
    expect(select.moveTo(start, 9, { ctrl: true })).toEqual({ ranges: [[4, 4]], focus: 9, anchor: 4 })
  })
  test.each([
    ['ArrowDown', 4, 5],
    ['ArrowUp', 0, 0],
    ['ArrowDown', -1, 0],
    ['End', -1, 99],
    ['PageDown', 95, 99],
    ['PageUp', 25, 15],
    ['Home', 50, 0],
    ['x', 4, null],
    ['ArrowRight', 4, null],
  ])('%s from %i goes to %s', (key, focus, expected) => {
    expect(select.findTarget(key as string, focus as number, 100, 10)).toBe(expected)
  })
  test('in a grid the arrows go by line and by tile', () => {
    expect(select.findTarget('ArrowDown', 4, 100, 20, 5)).toBe(9)
    expect(select.findTarget('ArrowRight', 4, 100, 20, 5)).toBe(5)
  })
  test('an empty folder has nowhere to go', () => {
    expect(select.findTarget('ArrowDown', -1, 0, 10)).toBeNull()
  })
})

test('rows become ranges', () => {
  expect(select.selectRows([1, 2, 3, 7], 2)).toEqual({
    ranges: [
      [1, 3],
      [7, 7],
    ],
    focus: 2,
    anchor: 2,
  })
  expect(select.selectRows([], -1)).toEqual(select.NOTHING)
})

test('a million rows are selected and counted as one range', () => {
  const all = select.selectAll(build(3), 1_000_000)
  expect(select.countSelected(all)).toBe(1_000_000)
  expect(select.countSelected(select.toggle(all, 500_000))).toBe(999_999)
  expect(select.isSelected(all, 999_999)).toBe(true)
  expect(select.isSelected(all, 1_000_000)).toBe(false)
})
