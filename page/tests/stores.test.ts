import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const SOURCE = join(import.meta.dirname, '..', 'src')
const INSTANCE = /^(?:export )?(?:const|let|var) (\w+)[^=\n]*= new (\w+)/gm
const VARIABLE = /^(?:export )?(?:let|var) (\w+)|^(?:export )?const (\w+)[^=\n]*= \$state/gm
/** Instances that nothing changes: sets of constants, and encoders. */
const CONSTANT = /^[A-Z][A-Z_]*$/
const STATELESS = ['TextEncoder', 'MarkdownIt']
const OBJECT = /^(export )?const (\w+)[^=\n]*= [{[]/gm

function findModuleState(text: string): string[] {
  const instances = [...text.matchAll(INSTANCE)].filter(([, name, type]) => {
    return !CONSTANT.test(name ?? '') && !STATELESS.includes(type ?? '')
  })
  const variables = [...text.matchAll(VARIABLE)]
  return [...instances, ...variables].map(([line]) => line)
}

/** The code of a module; of a component, what runs once for all its instances. */
function readModule(path: string): string {
  const text = readFileSync(path, 'utf8')
  if (!path.endsWith('.svelte')) return text
  return (/<script[^>]*\bmodule\b[^>]*>([\s\S]*?)<\/script>/.exec(text)?.[1] ?? '').replace(/^ {2}/gm, '')
}

/** The changes of the objects that a module makes, in the module and where it is imported. */
function findObjectChanges(module: string, others: readonly string[]): string[] {
  return [...module.matchAll(OBJECT)].flatMap(([, exported, name]) => {
    const isImport = new RegExp(`^ *import \\{[^}]*\\b${name}\\b[^}]*\\} from`, 'm')
    const change = new RegExp(`(?<![\\w.#])${name}(?:\\.\\w+|\\[[^\\]\\n]*\\])+ [-+*/|&?]*=(?![=>]).*`, 'g')
    const importers = exported ? others.filter((text) => isImport.test(text)) : []
    return [module, ...importers].flatMap((text) => text.match(change) ?? [])
  })
}

const files = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' })
const modules = files.filter((file) => /\.(ts|svelte)$/.test(file) && file !== 'main.ts' && file !== 'components.ts')

test('a module makes no store: stores are made in createStores and handed down', () => {
  const moduleState = modules.flatMap((file) =>
    findModuleState(readModule(join(SOURCE, file))).map((line) => [file, line]),
  )
  expect(modules.length).toBeGreaterThan(300)
  expect(moduleState).toEqual([])
})

test('no module changes an object of a module', () => {
  const texts = modules
    .filter((file) => !file.endsWith('.d.ts'))
    .map((file) => readFileSync(join(SOURCE, file), 'utf8'))
  expect(texts.flatMap((text) => findObjectChanges(text, texts))).toEqual([])
})

test.each([
  ["export const caller = { token: '' }\n", "import { caller } from './client'\ncaller.token = 'a'\n"],
  ["const caller = { token: '' }\nfunction begin() {\n  caller.token = 'a'\n}\n", ''],
])('%s is changed', (module, other) => {
  expect(findObjectChanges(module, [other])).toHaveLength(1)
})

test('objects that are only read are not changed', () => {
  const other = "import { caller } from './client'\nconst isGuest = caller.token === ''\nstores.caller.token = ''\n"
  expect(findObjectChanges("export const caller = { token: '' }\n", [other])).toEqual([])
})

test.each([
  'export const session = new Session()',
  'const known = new Map<string, number>()',
  'let shown = 0',
  'export const count = $state(0)',
])('%s is a store of a module', (line) => {
  expect(findModuleState(`import a from 'a'\n${line}\n`)).toHaveLength(1)
})

test.each(["const NAMES = new Set(['a'])", 'const encoder = new TextEncoder()', '  let shown = 0'])(
  '%s is none',
  (line) => {
    expect(findModuleState(line)).toEqual([])
  },
)
