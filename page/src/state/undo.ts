import { baseName, parent } from '../api/paths'
import { asProblem } from '../api/problem'
import type { TrashRestored } from '../api/schema'
import { restoreNames } from '../api/trash'
import { formatName } from '../text/format'
import type { UndoStack } from './frame/undo'
import type { Stores } from './stores'

/** Say that entries were removed into the trash, with a button that restores them. `steps` remembers it for later. */
export function offerUndo(stores: Stores, folder: string, names: readonly string[], steps: UndoStack): void {
  const step = () => void undo(stores, folder, names)
  steps.remember(step)
  const { t } = stores.language
  stores.toasts.show('done', t().files.removed(names.length), { text: t().trash.undo, run: () => steps.run(step) })
}

async function undo(stores: Stores, folder: string, names: readonly string[]): Promise<void> {
  try {
    tellRestored(stores, await restoreNames(stores.api, folder, names, stores.passwords.find(folder)))
  } catch (thrown) {
    stores.toasts.show('failed', asProblem(thrown).message || stores.language.t().problems.broken)
  }
}

/** Say what was restored, that a task restores the rest, and under which name one that was taken; list the folders again. */
export function tellRestored({ folderChanges, language, toasts }: Stores, { done, failed, task }: TrashRestored): void {
  const text = language.t().trash
  for (const folder of new Set(done.map(({ path }) => parent(path)))) {
    folderChanges.tell(
      folder,
      done.filter(({ path }) => parent(path) === folder).map(({ path }) => baseName(path)),
    )
  }
  const [first] = done
  if (failed.length > 0) toasts.show('failed', text.notRestored(failed.length, failed[0]?.message ?? ''))
  else if (task) toasts.show('done', text.restoring)
  else if (done.length === 1 && first) toasts.show('done', text.restoredTo(formatName(first.path)))
  else if (done.length > 0) toasts.show('done', text.restored(done.length))
  else toasts.show('failed', text.nothing)
}
