import { expect, test } from 'vitest'
import { ALL_RIGHTS, hasRight, setAll, setRight } from '../src/views/manage/users/rights'

const SHARES = 0xc000 // bits that no field shows

test('a right is one bit, and the others stay', () => {
  const changed = setRight(SHARES | 8, 'rename', true)
  expect(changed).toBe(SHARES | 8 | 16)
  expect(hasRight(changed, 'rename')).toBe(true)
  expect(setRight(changed, 'write', false)).toBe(SHARES | 16)
})

test('all and none leave what is not shown', () => {
  expect(setAll(SHARES, true)).toBe(0xffff)
  expect(setAll(0xffff, false)).toBe(SHARES)
  expect(new Set(ALL_RIGHTS).size).toBe(14)
})
