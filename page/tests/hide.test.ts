import { expect, test } from 'vitest'
import { compileLine, isHidden, splitLines } from '../src/views/manage/rules/hide'

test('lines are searched in a name, one by one', () => {
  const lines = splitLines('^\\.\n\n(?i)\\.TMP$\n')
  expect(lines).toHaveLength(2)
  expect(['.git', 'a.tmp', 'b.Tmp'].every((name) => isHidden(name, lines))).toBe(true)
  expect(isHidden('tmp.txt', lines)).toBe(false)
  expect(isHidden('anything', [])).toBe(false)
})

test('what the browser does not know is not tried', () => {
  expect(compileLine('(')).toBeNull()
  expect(compileLine('\\pL(?P<n>a)')).toBeNull()
  expect(compileLine('a-b\\-c')?.test('a-b-c')).toBe(true)
})
