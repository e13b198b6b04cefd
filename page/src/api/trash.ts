import type { ApiClient } from './client'
import type { TrashListing, TrashObject, TrashOutcome, TrashRestored } from './schema'

/** The trash: entries that were removed or replaced, and can be restored. */

export type { TrashObject }

const MAX_IDS_PER_REQUEST = 1000
const PER_PAGE = 200
const AT_END = '0' // no id comes after it: a listing from here has no entries

/** A page of the own entries, for administrators of all; `start`: `next` of the page before, '' at first. */
export function listTrash(api: ApiClient, start: string): Promise<TrashListing> {
  return api.call('post', '/api/fs/trash/list', { body: { path: '', password: '', start, per_page: PER_PAGE } })
}

/** The days for which what is removed from a folder can be restored. 0: removals are final; null: not known. */
export async function findTrashDays(api: ApiClient, path: string, password: string): Promise<number | null> {
  const body = { path, password, start: AT_END, per_page: 1 }
  return (await api.call('post', '/api/fs/trash/list', { body })).days
}

/** Restore entries to where they were; one whose name is taken gets a number. */
export function restore(api: ApiClient, ids: readonly string[]): Promise<TrashRestored> {
  return restoreInParts(ids, (part) =>
    api.call('post', '/api/fs/trash/restore', { body: { ids: part, overwrite: false } }),
  )
}

/** Restore what the user removed last at these names of a folder. */
export function restoreNames(
  api: ApiClient,
  dir: string,
  names: readonly string[],
  password: string,
): Promise<TrashRestored> {
  return restoreInParts(names, (part) => {
    return api.call('post', '/api/fs/trash/restore', { body: { dir, names: part, password, overwrite: false } })
  })
}

/** Delete entries for good. */
export function deleteForGood(api: ApiClient, ids: readonly string[]): Promise<TrashOutcome> {
  return inParts(ids, (part) => api.call('post', '/api/fs/trash/delete', { body: { ids: part } }))
}

/** Delete the own entries for good, for administrators all; the number of those that stay. */
export async function empty(api: ApiClient): Promise<number> {
  for (;;) {
    const { more, deleted, failed } = await api.call('post', '/api/fs/trash/empty', { body: {} })
    if (!more || deleted === 0) return failed
  }
}

/** Delete the entries that a user removed for good; the number of those that stay. */
export async function emptyOf(api: ApiClient, username: string): Promise<number> {
  let failed = 0
  for (let start = '', isFirst = true; isFirst || start; isFirst = false) {
    const page: TrashListing = await listTrash(api, start)
    start = page.next
    const ids = page.content.filter(({ remover }) => remover === username).map(({ id }) => id)
    if (ids.length > 0) failed += (await deleteForGood(api, ids)).failed.length
  }
  return failed
}

async function inParts(
  items: readonly string[],
  send: (part: string[]) => Promise<TrashOutcome>,
): Promise<TrashOutcome> {
  const outcome: TrashOutcome = { done: [], failed: [] }
  for (let start = 0; start < items.length; start += MAX_IDS_PER_REQUEST) {
    const { done, failed } = await send(items.slice(start, start + MAX_IDS_PER_REQUEST))
    outcome.done.push(...done)
    outcome.failed.push(...failed)
  }
  return outcome
}

async function restoreInParts(
  items: readonly string[],
  send: (part: string[]) => Promise<TrashRestored>,
): Promise<TrashRestored> {
  let task: TrashRestored['task'] = null
  const outcome = await inParts(items, async (part) => {
    const restored = await send(part)
    task ??= restored.task
    return restored
  })
  return { ...outcome, task }
}
