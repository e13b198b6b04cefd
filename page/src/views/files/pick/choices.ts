import type { OnConflict } from '../../../api/transfers'

/** The choices for names that are taken at the target of a move or copy. */
export function listConflictChoices(verb: 'move' | 'copy', hasFolders: boolean): OnConflict[] {
  return [...(verb === 'copy' && hasFolders ? (['merge'] as const) : []), 'keepBoth', 'skip', 'overwrite']
}
