import { expect, test } from 'vitest'
import { formatQuery, type SearchFilter } from '../src/state/search.svelte'

const NOTHING: SearchFilter = {
  keywords: '',
  parent: '/a',
  scope: 'all',
  ext: '',
  minSize: '',
  maxSize: '',
  unit: 1024,
  since: '',
  until: '',
}

test('nothing is asked before something is looked for', () => {
  expect(formatQuery(NOTHING)).toBeNull()
  expect(formatQuery({ ...NOTHING, keywords: '  ', minSize: 'x', since: '20' })).toBeNull()
  expect(formatQuery({ ...NOTHING, scope: 'folders' })).toMatchObject({ scope: 1, keywords: '*' })
})

test('sizes are bytes, and days those of the clock of the user', () => {
  const query = formatQuery({ ...NOTHING, minSize: '1.5', maxSize: '0', since: '2026-03-01', until: '2026-03-01' })
  expect(query).toMatchObject({ min_size: 1536, max_size: 0 })
  expect(new Date(query?.since ?? '').toString()).toContain('Mar 01 2026 00:00:00')
  expect(new Date(query?.until ?? '').toString()).toContain('Mar 01 2026 23:59:59')
})
