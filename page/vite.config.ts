import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { svelte } from '@sveltejs/vite-plugin-svelte'
import type { Plugin, Rolldown } from 'vite'
import { defineConfig } from 'vitest/config'

const SMALLEST = 1024 // bytes; below, compression gains nothing

/** What an address needs at once is one file for each of these modules: itself and all that it imports statically, but for
 *  what a file above has. As many small files cost more than the bytes in them. */
const FIRST_FILES = { start: '/src/main.ts', files: '/src/views/files/FilesView.svelte' }

/** The modules that many other parts of the page need. */
const COMMON = {
  name: 'common',
  test: /[\\/]src[\\/](api|parts|state|text)[\\/]|[\\/]node_modules[\\/]svelte[\\/]/,
  minShareCount: 5,
}

/** Return a group for each of the first files, the most important one first. */
function groupFirstFiles(): Rolldown.CodeSplittingGroup[] {
  return Object.entries(FIRST_FILES).map(([name, root], place, all) => {
    const members = new Set<string>() // found when the graph is complete
    const choose = (id: string, context: Rolldown.ChunkingContext) => {
      if (members.size === 0) findImported(join(import.meta.dirname, root), context, members)
      return members.has(id) ? name : null
    }
    return { name: choose, debugName: name, priority: all.length - place }
  })
}

/** Add a module, and all that it imports statically, to `members`. */
function findImported(id: string, context: Rolldown.ChunkingContext, members: Set<string>): void {
  if (members.has(id)) return
  members.add(id)
  for (const imported of context.getModuleInfo(id)?.importedIds ?? []) findImported(imported, context, members)
}

/** Beside every asset the same as .br and .gz, so that serving one costs no work: made of what was written at last. */
function compress(): Plugin {
  return {
    name: 'compress',
    apply: 'build',
    writeBundle({ dir = 'dist' }, bundle) {
      for (const file of Object.keys(bundle).filter((name) => /\.(js|css|svg|wasm|json)$/.test(name))) {
        const path = join(dir, file)
        const bytes = readFileSync(path)
        if (bytes.length < SMALLEST) continue
        writeFileSync(`${path}.br`, brotliCompressSync(bytes))
        writeFileSync(`${path}.gz`, gzipSync(bytes, { level: 9 }))
      }
    },
  }
}

/** In development, /@components shows every component. */
function showComponents(): Plugin {
  return {
    name: 'components',
    configureServer({ middlewares }) {
      middlewares.use((request, _, next) => {
        if (request.url === '/@components') request.url = '/components.html'
        next()
      })
    },
  }
}

export default defineConfig({
  plugins: [svelte(), compress(), showComponents()],
  build: {
    assetsDir: '@assets',
    assetsInlineLimit: 0, // a data address would need a wider content security policy
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: { output: { codeSplitting: { groups: [...groupFirstFiles(), COMMON] } } },
  },
  server: { proxy: { '^/(api|d|p|ad|ap|ae|favicon.ico|manifest.json)(/|$)': 'http://127.0.0.1:5244' } },
  test: { include: ['tests/**/*.test.ts'] },
})
