import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { RIGHTS, ROLES, SETTING_FLAGS, SETTING_GROUPS, TASK_KINDS, TASK_STATES } from '../src/api/enums'

const SOURCE = join(import.meta.dirname, '..', 'src')
const DERIVED = ['api/enums.ts', 'api/schema.d.ts']
/** Modules that arrange members for people, or icons of the same names. */
const ARRANGED = [
  'views/components/ComponentsView.svelte',
  'views/files/Toolbar.svelte',
  'views/manage/settings/SettingsSection.svelte',
  'views/manage/users/rights.ts',
]
const MAX_NAMED = 3 // members of an enumeration that one list of a module may name
const LISTS: Record<string, readonly string[]> = {
  rights: Object.keys(RIGHTS),
  roles: Object.keys(ROLES),
  'groups of settings': Object.keys(SETTING_GROUPS),
  'visibilities of settings': Object.keys(SETTING_FLAGS),
  'kinds of tasks': TASK_KINDS,
  'states of tasks': TASK_STATES,
}

/** The array literals of texts in the code, each as its texts. */
function listArrays(code: string): string[][] {
  return [...code.matchAll(/\[\s*((?:'[\w-]+'\s*,?\s*){2,})\]/g)].map(([, inner]) =>
    [...(inner ?? '').matchAll(/'([\w-]+)'/g)].map(([, text]) => text ?? ''),
  )
}

/** What an array copies of an enumeration of the service. */
function findCopies(code: string): string[] {
  return listArrays(code).flatMap((texts) =>
    Object.entries(LISTS)
      .filter(([, members]) => {
        const named = texts.filter((text) => members.includes(text)).length
        return named > MAX_NAMED || named === members.length
      })
      .map(([name]) => `${name}: ${texts.join(' ')}`),
  )
}

test('no module has its own list of what the service enumerates', () => {
  const files = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' })
  const modules = files.filter((file) => /\.(ts|svelte)$/.test(file) && ![...DERIVED, ...ARRANGED].includes(file))
  const copies = modules.flatMap((file) =>
    findCopies(readFileSync(join(SOURCE, file), 'utf8')).map((list) => `${file}: ${list}`),
  )
  expect(modules.length).toBeGreaterThan(300)
  expect(copies).toEqual([])
})

test('every group of settings has its place', () => {
  const code = readFileSync(join(SOURCE, 'views/manage/settings/SettingsSection.svelte'), 'utf8')
  const [shown = []] = listArrays(code)
  const elsewhere = ['single', 'offline', 'index'] // tokens, tools and the search index have sections of their own
  expect([...shown, ...elsewhere].sort()).toEqual(Object.keys(SETTING_GROUPS).sort())
})

test('a copied list is found', () => {
  const quoted = TASK_KINDS.map((kind) => `'${kind}'`).join(', ')
  expect(findCopies(`const KINDS = [${quoted}]`)).toHaveLength(1)
  expect(findCopies("const DONE = ['succeeded', 'canceled', 'failed']")).toEqual([])
})
