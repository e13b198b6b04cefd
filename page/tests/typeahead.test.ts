import { expect, test } from 'vitest'
import { TypeAhead } from '../src/state/typeahead'

const NAMES: [number, string][] = [
  [0, 'apple'],
  [1, 'Äpfel'],
  [3, 'banana'],
  [4, 'apricot'],
]

test('letters that follow each other make a word, after a pause a new one', () => {
  const ahead = new TypeAhead()
  expect(ahead.type('a', -1, NAMES, 0)).toBe(0)
  expect(ahead.type('p', 0, NAMES, 100)).toBe(0)
  expect(ahead.type('r', 0, NAMES, 200)).toBe(4)
  expect(ahead.type('b', 4, NAMES, 2000)).toBe(3)
})

test('the same letter goes from name to name, whatever its accent', () => {
  const ahead = new TypeAhead()
  expect(ahead.type('a', -1, NAMES, 0)).toBe(0)
  expect(ahead.type('a', 0, NAMES, 100)).toBe(1)
  expect(ahead.type('a', 1, NAMES, 200)).toBe(4)
  expect(ahead.type('a', 4, NAMES, 300)).toBe(0)
})

test('a word that no name begins with leads nowhere', () => {
  expect(new TypeAhead().type('x', 0, NAMES, 0)).toBe(-1)
  expect(new TypeAhead().type('x', 0, [], 0)).toBe(-1)
})
