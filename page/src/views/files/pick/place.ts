import { baseName, join, parent } from '../../../api/paths'
import type { FileObject } from '../../../api/schema'

type Entry = Pick<FileObject, 'name' | 'is_dir'>

/** Why entries of `folder` cannot go to `target`: it is where they are, or one of them, or below one of them. */
export function findPlaceFault(target: string, folder: string, entries: readonly Entry[]): 'same' | 'inside' | null {
  if (target === folder) return 'same'
  const isInside = entries.some(({ name, is_dir }) => is_dir && isWithin(target, join(folder, name)))
  return isInside ? 'inside' : null
}

function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`)
}

/** The names that a filter leaves, those first that begin with it. */
export function filterNames(names: readonly string[], filter: string): string[] {
  const word = filter.toLocaleLowerCase()
  if (word === '') return [...names]
  const matches = names.filter((name) => name.toLocaleLowerCase().includes(word))
  const begins = (name: string) => Number(name.toLocaleLowerCase().startsWith(word))
  return matches.sort((a, b) => begins(b) - begins(a))
}

/** The folders on the way to a path with their names, for steps back; the root has none. */
export function listSteps(path: string): { path: string; name: string }[] {
  const steps = [{ path, name: baseName(path) }]
  for (let current = path; current !== '/'; ) {
    current = parent(current)
    steps.unshift({ path: current, name: baseName(current) })
  }
  return steps
}
