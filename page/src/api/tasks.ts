import type { ApiClient } from './client'
import { type TASK_KINDS, TASK_STATES } from './enums'
import { Problem } from './problem'
import type { TaskRow } from './schema'

export type TaskKind = (typeof TASK_KINDS)[number]
export type TaskState = (typeof TASK_STATES)[number]

export interface Task extends Required<Omit<TaskRow, 'state'>> {
  kind: TaskKind
  state: TaskState
}

const DONE: readonly TaskState[] = ['succeeded', 'canceled', 'failed']

export function isDone({ state }: Task): boolean {
  return DONE.includes(state)
}

/** One page of the tasks that this user may see: under way the oldest first, done the last first; `page` from 1. */
export async function list(
  api: ApiClient,
  kind: TaskKind,
  list: 'undone' | 'done',
  page: number,
  size: number,
  signal?: AbortSignal,
): Promise<Task[]> {
  const query = { page: String(page), per_page: String(size) }
  const rows = await api.call('get', makePath(kind, list), { query, ...(signal && { signal }) })
  return rows.map((row) => read(kind, row))
}

/** One task; null when there is none any more. */
export async function find(api: ApiClient, kind: TaskKind, id: string, signal?: AbortSignal): Promise<Task | null> {
  try {
    const answer = await api.call('post', makePath(kind, 'info'), { query: { tid: id }, ...(signal && { signal }) })
    const row = Array.isArray(answer) ? answer[0] : answer
    return row ? read(kind, row) : null
  } catch (thrown) {
    if (thrown instanceof Problem && thrown.code === 404) return null
    throw thrown
  }
}

/** Do it to tasks of a kind. Throws a Problem with the first refusal. */
export async function change(
  api: ApiClient,
  kind: TaskKind,
  verb: 'cancel' | 'delete' | 'retry',
  ids: readonly string[],
): Promise<void> {
  for (let start = 0; start < ids.length; start += MAX_IDS_PER_REQUEST) {
    const refused = await api.call('post', makePath(kind, `${verb}_some`), {
      body: ids.slice(start, start + MAX_IDS_PER_REQUEST),
    })
    const [message] = Object.values(refused)
    if (message !== undefined) throw new Problem('refused', message)
  }
}

const MAX_IDS_PER_REQUEST = 1000 // in one request

export async function changeAll(
  api: ApiClient,
  kind: TaskKind,
  verb: 'clear_done' | 'clear_succeeded' | 'retry_failed',
): Promise<void> {
  await api.call('post', makePath(kind, verb))
}

/** The kind is part of the path, which the types have with its placeholder. */
function makePath<Verb extends string>(kind: TaskKind, verb: Verb): `/api/task/{kind}/${Verb}` {
  return `/api/task/${kind}/${verb}` as `/api/task/{kind}/${Verb}`
}

/** The task in a row of a list, or of an event. */
export function read(kind: TaskKind, row: TaskRow): Task {
  const state = typeof row.state === 'number' ? TASK_STATES[row.state] : TASK_STATES.find((name) => name === row.state)
  const details = { done_bytes: 0, done_items: 0, total_items: 0, current_item: '' } // of a task from before they were counted
  return { ...details, ...row, kind, state: state ?? 'pending' }
}
