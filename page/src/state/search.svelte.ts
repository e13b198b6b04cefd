import type { SearchRow } from '../api/schema'
import { Pages } from './pages.svelte'
import type { Stores } from './stores'

/** The filter of a search. Sizes are numbers as text in `unit` bytes, days are those of a date field; '' stands for any. */
export interface SearchFilter {
  keywords: string
  parent: string
  scope: 'all' | 'folders' | 'files'
  ext: string
  minSize: string
  maxSize: string
  unit: number
  since: string
  until: string
}

export type Query = ReturnType<typeof formatQuery>

const SCOPES = { all: 0, folders: 1, files: 2 }
const DAY = 86_400_000 // ms

/** The pattern of all names: keywords may not be empty. */
export const EVERY_NAME = '*'

/** The request; null while nothing is looked for. */
export function formatQuery(filter: SearchFilter) {
  const { keywords, parent, scope, ext, minSize, maxSize, unit, since, until } = filter
  const filters = {
    ext: ext.trim(),
    min_size: toBytes(minSize, unit),
    max_size: toBytes(maxSize, unit),
    since: formatDay(since, 0),
    until: formatDay(until, DAY - 1),
  }
  const isAsked =
    keywords.trim() !== '' || scope !== 'all' || Object.values(filters).some((part) => part !== '' && part !== null)
  return isAsked ? { keywords: keywords.trim() || EVERY_NAME, parent, scope: SCOPES[scope], ...filters } : null
}

/** The hits of a search, fetched by the page. `noteIndexing` hears whether the index is still being built. */
export function search(
  { api, passwords }: Stores,
  query: NonNullable<Query>,
  noteIndexing: (value: boolean) => void,
): Pages<SearchRow> {
  return new Pages(async (page, size, signal) => {
    const body = { ...query, password: passwords.find(query.parent), page: page + 1, per_page: size }
    const { content, total, indexing } = await api.call('post', '/api/fs/search', { body, signal })
    noteIndexing(indexing === true)
    return { rows: content, total }
  })
}

function toBytes(text: string, unit: number): number | null {
  const size = Number.parseFloat(text)
  return Number.isFinite(size) && size >= 0 ? Math.round(size * unit) : null
}

/** A moment of the day as the user's clock has it: the service takes a bare date for one in UTC. */
function formatDay(day: string, later: number): string {
  const start = Date.parse(`${day}T00:00:00`)
  return Number.isNaN(start) ? '' : new Date(start + later).toISOString()
}
