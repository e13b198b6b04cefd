import type { ApiClient } from '../../api/client'
import { parent } from '../../api/paths'
import { Problem } from '../../api/problem'
import { find, isDone, list, type Task, type TaskKind } from '../../api/tasks'
import type { FolderChanges } from '../folderChanges'
import { parseName } from './names'

const MAX_FOLLOWED_TASKS = 20 // tasks that ended at once and of which it is asked how

/** One kind leads to another: what was downloaded is transferred. */
export const NEXT: Partial<Record<TaskKind, TaskKind>> = {
  offline_download: 'offline_download_transfer',
  decompress: 'decompress_upload',
}

/** The tasks among `before` that are not under way any more, as they ended. */
export async function findEnded(api: ApiClient, before: readonly Task[], now: readonly Task[]): Promise<Task[]> {
  const left = new Set(now.map(({ id }) => id))
  const gone = before.filter(({ id }) => !left.has(id))
  const answers = await Promise.all(gone.slice(0, MAX_FOLLOWED_TASKS).map((task) => find(api, task.kind, task.id)))
  const known = new Map(answers.filter((task) => task !== null).map((task) => [task.id, task]))
  return gone.map((task) => known.get(task.id) ?? task)
}

/** The folders that a task has changed are listed again where they are in view. */
export function tellFolders(folderChanges: FolderChanges, task: Task, base: string): void {
  const { source, target } = parseName(task.name, base)
  if (target) folderChanges.tell(target)
  if (task.kind === 'move' && source.startsWith('/')) folderChanges.tell(parent(source))
}

const FOLLOW_PAUSE_MS = 1500

/** Wait until a task has succeeded. `report` is told the percent that are done, and answers false to stop waiting.
 *  Throws Problem when the task fails, is cancelled or was removed. */
export async function followTask(
  api: ApiClient,
  kind: TaskKind,
  id: string,
  report: (percent: number) => boolean,
): Promise<void> {
  for (;;) {
    const task = await find(api, kind, id)
    if (!task) throw new Problem('missing')
    if (task.state === 'succeeded') return
    if (isDone(task)) throw new Problem('broken', task.error)
    if (!report(task.progress)) return
    await new Promise((resolve) => setTimeout(resolve, FOLLOW_PAUSE_MS))
  }
}

const PAGE = 1000 // rows of one request
const MAX_FINISHED_TASKS = 10_000 // finished tasks that are shown

/** All finished tasks of a kind, those that ended last first. */
export async function listDone(api: ApiClient, kind: TaskKind): Promise<Task[]> {
  const all: Task[] = []
  while (all.length < MAX_FINISHED_TASKS) {
    const page = await list(api, kind, 'done', all.length / PAGE + 1, PAGE)
    all.push(...page)
    if (page.length < PAGE) break
  }
  return all
}

const JUST = 15_000 // ms

/** Tasks that ended so lately that they may be what was just asked for, and were never seen under way. */
export async function findJustEnded(api: ApiClient, kind: TaskKind): Promise<Task[]> {
  const done = await list(api, kind, 'done', 1, PAGE)
  return done.filter(({ end_time }) => end_time && Math.abs(Date.now() - Date.parse(end_time)) < JUST)
}
