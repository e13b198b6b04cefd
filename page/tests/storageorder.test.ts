import { expect, test } from 'vitest'
import { findOrderChanges } from '../src/views/manage/storages/order'

const list = (...pairs: [id: number, order: number][]) => pairs.map(([id, order]) => ({ id, order }))

test.each([
  ['nothing moved', list([1, 0], [2, 0], [3, 5]), 2, []],
  ['to the end', list([1, 0], [3, 20], [2, 10]), 2, [{ id: 2, order: 30 }]],
  ['to the beginning', list([3, 20], [1, 0], [2, 10]), 3, [{ id: 3, order: -10 }]],
  ['between two', list([1, 0], [3, 20], [2, 10]), 3, [{ id: 3, order: 5 }]],
])('%s', (_, ordered, moved, changes) => {
  expect(findOrderChanges(ordered, moved)).toEqual(changes)
})

test('between equal ones all get numbers, with room for the next move', () => {
  const changes = findOrderChanges(list([1, 0], [4, 0], [2, 0], [3, 0]), 4)
  expect(changes).toEqual(list([1, 10], [4, 20], [2, 30], [3, 40]))
})
