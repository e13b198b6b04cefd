import { expect, test } from 'vitest'
import { toMoment } from '../src/api/audit'

test('a day begins at its midnight where the reader is', () => {
  expect(toMoment('2026-03-01', 0)).toBe(new Date(2026, 2, 1).toISOString())
})

test('the last day ends with the midnight of the next one', () => {
  expect(toMoment('2026-02-28', 1)).toBe(new Date(2026, 2, 1).toISOString())
})

test('no day is no moment', () => {
  expect(toMoment('', 1)).toBe('')
})
