import type { Folder } from '../../state/folder.svelte'
import * as select from '../../state/selection'

/**
 * Remember a selection by its names, to have it again when rows have become others. What is not known by name is
 * selected no more, so that no action is about another entry than was meant. `added` names are selected in place of
 * all, if there are any.
 */
export function keepNames(folder: Folder, selection: select.Selection, added: readonly string[]) {
  const names = new Set(added.length > 0 ? added : listNames(folder, selection))
  const focused = added[0] ?? folder.entry(selection.focus)?.name
  const make = (rows: readonly number[]) => {
    const [focus] = focused === undefined ? [] : folder.rowsOf(new Set([focused]))
    return select.selectRows(rows, focus ?? rows[0] ?? -1)
  }
  return {
    /** The selection among the rows that are loaded. */
    here: () => make(folder.rowsOf(names)),
    /** The same after the others were looked for too. */
    everywhere: async () => make(await folder.findRows(names)),
  }
}

function listNames(folder: Folder, selection: select.Selection): string[] {
  const names = folder.loadedNames().flatMap(([row, name]) => (select.isSelected(selection, row) ? [name] : []))
  return names.length === select.countSelected(selection) ? names : []
}
