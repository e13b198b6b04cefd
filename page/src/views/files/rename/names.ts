import { findNameFault } from '../../../api/files'
import type { FileObject } from '../../../api/schema'
import { compilePattern } from './pattern'

type Entry = Pick<FileObject, 'name' | 'is_dir'>

export const MODES = ['replace', 'pattern', 'number', 'list'] as const
export type Mode = (typeof MODES)[number]

/** A rule that makes new names of old ones. */
export interface Rule {
  mode: Mode
  find: string // text, or a pattern
  replacement: string // text, a pattern's template, or the name in which # stands for the number
  first: number
  lines: string // of mode `list`: a name each, in the order of the entries
}

export interface Renaming {
  old: string
  new: string
  fault: ReturnType<typeof findNameFault> | 'taken' | 'twice'
}

/** Return the entries whose name the rule changes. `existing`: all names of the folder. Throws SyntaxError. */
export function previewNames(entries: readonly Entry[], rule: Rule, existing: ReadonlySet<string>): Renaming[] {
  const make = MAKERS[rule.mode](entries, rule)
  const changed = entries
    .map((entry, index) => ({ old: entry.name, new: make(entry, index) }))
    .filter((renaming) => renaming.new !== renaming.old)
  const count = new Map<string, number>()
  for (const renaming of changed) count.set(renaming.new, (count.get(renaming.new) ?? 0) + 1)
  const leaving = new Set(changed.map((renaming) => renaming.old))
  return changed.map((renaming) => ({ ...renaming, fault: findFault(renaming.new, count, leaving, existing) }))
}

function findFault(name: string, count: Map<string, number>, leaving: Set<string>, existing: ReadonlySet<string>) {
  const fault = findNameFault(name)
  if (fault) return fault
  if ((count.get(name) ?? 0) > 1) return 'twice'
  return existing.has(name) && !leaving.has(name) ? 'taken' : null
}

type Maker = (entry: Entry, index: number) => string

const MAKERS: Record<Mode, (entries: readonly Entry[], rule: Rule) => Maker> = {
  replace: (_, { find, replacement }) => {
    return ({ name }) => (find ? name.replaceAll(find, () => replacement) : name)
  },
  pattern: (_, { find, replacement }) => {
    const replace = compilePattern(find, replacement)
    return ({ name }) => (find ? replace(name) : name)
  },
  number: (entries, { replacement, first }) => {
    const template = /#/.test(replacement) ? replacement : `${replacement} #`
    const digits = String(first + entries.length - 1).length
    const write = (number: number) =>
      template.replace(/#+/g, (mark) => String(number).padStart(Math.max(mark.length, digits), '0'))
    return (entry, index) => (replacement ? write(first + index) + findExtension(entry) : entry.name)
  },
  list: (_, { lines }) => {
    const names = lines.split('\n')
    return ({ name }, index) => names[index]?.trim() ?? name
  },
}

/** `.txt`, with its dot; '' for folders and for names without one. */
function findExtension({ name, is_dir }: Entry): string {
  const dot = name.lastIndexOf('.')
  return is_dir || dot <= 0 ? '' : name.slice(dot)
}
