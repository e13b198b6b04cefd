import type { ApiClient } from '../../../api/client'
import { list, type TaskKind } from '../../../api/tasks'
import type { Session } from '../../../state/session.svelte'
import type { Stores } from '../../../state/stores'
import { findJustEnded, NEXT } from '../../../state/tasks/follow'
import { MAX_UNFINISHED_TASKS } from '../../../state/tasks.svelte'

/** Do something that the service does at once or by tasks; whether it opened one: its answer does not tell. */
export async function opensTask({ api, session }: Stores, kind: TaskKind, work: () => Promise<void>): Promise<boolean> {
  if (session.isGuest) {
    await work() // guests have no list of tasks
    return false
  }
  const before = await findLatest(api, session, kind)
  await work()
  const now = await findLatest(api, session, kind)
  return before.length >= MAX_UNFINISHED_TASKS || now.some((id) => !before.includes(id))
}

/** The user's own tasks of a kind that are under way or just were; none when that cannot be learnt. */
async function findLatest(api: ApiClient, session: Session, kind: TaskKind): Promise<string[]> {
  const lists = [list(api, kind, 'undone', 1, MAX_UNFINISHED_TASKS), findJustEnded(api, kind)]
  const pages = await Promise.all(lists).catch(() => [])
  const own = pages.flat().filter((task) => task.creator === session.user?.username)
  return own.map((task) => task.id)
}

/** Say that the work goes on as tasks of a kind, offer to look at them, and have the folders listed when it is done. */
export function followTasks(
  { language, session, tasks, toasts }: Stores,
  kind: TaskKind,
  folders: readonly string[],
  sentence: string,
): void {
  const openPanel = () => {
    tasks.isOpen = true
  }
  const show = { text: language.t().changes.showTasks, run: openPanel }
  toasts.show('done', sentence, session.isGuest ? undefined : show)
  const kinds = [kind, NEXT[kind]].filter((taskKind) => taskKind !== undefined) // a short one may lead to the next before it is seen
  for (const taskKind of kinds) for (const folder of folders) tasks.watch(taskKind, folder)
}
