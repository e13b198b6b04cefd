import { expect, test } from 'vitest'
import { RIGHTS } from '../src/api/enums'
import { Language } from '../src/text/language.svelte'
import { ALL_RIGHTS, describeRights, hasRight, setAll, setRight } from '../src/views/manage/users/rights'

const OTHER = 0xf0000 // bits that no field shows

test('a right is one bit, and the others stay', () => {
  const changed = setRight(OTHER | 8, 'rename', true)
  expect(changed).toBe(OTHER | 8 | 16)
  expect(hasRight(changed, 'rename')).toBe(true)
  expect(setRight(changed, 'write', false)).toBe(OTHER | 16)
})

test('all and none leave what is not shown', () => {
  expect(setAll(OTHER, true)).toBe(0xfffff)
  expect(setAll(0xfffff, false)).toBe(OTHER)
  expect(ALL_RIGHTS.toSorted()).toEqual(Object.keys(RIGHTS).sort()) // a form has each right once
})

test('rights in words are short where all of a group are there', async () => {
  const language = new Language()
  await language.withLateTexts(Promise.resolve())
  expect(describeRights(language, 0xffff, 'nothing')).toBe('Everything')
  expect(describeRights(language, 0, 'nothing')).toBe('nothing')
  expect(describeRights(language, 0xff | 0x100, 'nothing')).toBe('Files: everything · Sign in over WebDAV')
  expect(describeRights(language, 8 | 16, 'nothing')).toBe('Upload and create, Rename')
})
