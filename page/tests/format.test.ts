import { expect, test } from 'vitest'
import { formatName } from '../src/text/format'
import { Language } from '../src/text/language.svelte'

const { formatDate, formatSize } = new Language()

test('sizes are in powers of 1024', () => {
  expect([0, 1023, 1024, 1536, 200 * 1024 ** 2, 5 * 1024 ** 4].map(formatSize)).toEqual([
    '0 B',
    '1,023 B',
    '1 KiB',
    '1.5 KiB',
    '200 MiB',
    '5 TiB',
  ])
})

test('an unknown moment is not shown', () => {
  expect(formatDate('0001-01-01T00:00:00Z')).toBe('')
})

test('a name cannot hide its extension by turning its letters around', () => {
  expect(formatName('evil\u202egnp.exe')).toBe('evil\ufffdgnp.exe')
})
