import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { svelte } from '@sveltejs/vite-plugin-svelte'
import type { Plugin } from 'vite'
import { defineConfig } from 'vitest/config'

const SMALLEST = 1024 // bytes; below, compression gains nothing

/** The modules that many parts of the page need are one file: as many small ones cost more than the bytes in them. */
const COMMON = {
  name: 'common',
  test: /[\\/]src[\\/](api|parts|state|text)[\\/]|[\\/]node_modules[\\/]svelte[\\/]/,
  minShareCount: 5,
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
    rolldownOptions: { output: { codeSplitting: { groups: [COMMON] } } },
  },
  server: { proxy: { '^/(api|d|p|ad|ap|ae|favicon.ico|manifest.json)(/|$)': 'http://127.0.0.1:5244' } },
  test: { include: ['tests/**/*.test.ts'] },
})
