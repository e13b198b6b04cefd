/* The offline shell of the page: its index and assets. Files, answers of the interface and share links are never stored.
   It also gives PDF files, which the page has fetched, an address that ends with their name: see namedFiles.ts. */
const SHELL = 'mangrove-shell-1'
const INDEX = '/@/'
const MAX_ASSETS = 300 // of this and former versions; the oldest ones go
const PDF_FOLDER = '/@pdf/'
const MAX_FILES = 16 // shown at a time, in all tabs; the oldest ones go
const PDF_HEADERS = { 'content-type': 'application/pdf', 'x-content-type-options': 'nosniff' }
const files = new Map() // the blobs by their paths, in memory only

addEventListener('install', (event) => event.waitUntil(prepare()))
addEventListener('activate', (event) => event.waitUntil(takeOver()))
addEventListener('message', (event) => {
  const { path, blob } = event.data
  files.delete(path)
  if (blob) files.set(path, blob)
  if (files.size > MAX_FILES) files.delete(files.keys().next().value)
  event.ports[0]?.postMessage(null)
})
addEventListener('fetch', (event) => {
  const { request } = event
  const { origin, pathname } = new URL(request.url)
  if (request.method !== 'GET' || origin !== location.origin) return
  if (pathname.startsWith(PDF_FOLDER)) event.respondWith(openFile(pathname))
  else if (request.mode === 'navigate') {
    if (pathname === '/' || (pathname.startsWith('/@') && !pathname.startsWith('/@s'))) event.respondWith(openIndex(event))
  } else if (pathname.startsWith('/@assets/') && !pathname.endsWith('.html')) event.respondWith(openAsset(event))
})

async function prepare() {
  await skipWaiting()
  await store(INDEX, await fetch(INDEX, { cache: 'no-store' }))
}

async function takeOver() {
  for (const name of await caches.keys()) if (name !== SHELL) await caches.delete(name)
  await clients.claim()
}

/** The index of the service; without an answer, the one of the last visit. */
async function openIndex(event) {
  try {
    const answer = await fetch(event.request)
    if (answer.ok) event.waitUntil(store(INDEX, answer.clone()))
    return answer
  } catch (error) {
    const stored = await caches.match(INDEX)
    if (stored) return stored
    throw error
  }
}

function openFile(path) {
  const blob = files.get(path)
  return blob ? new Response(blob, { headers: PDF_HEADERS }) : new Response(null, { status: 404 })
}

/** The name of an asset has the hash of its content: a stored one is the same. */
async function openAsset(event) {
  const stored = await caches.match(event.request)
  if (stored) return stored
  const answer = await fetch(event.request)
  if (answer.ok) event.waitUntil(store(event.request, answer.clone()))
  return answer
}

async function store(request, answer) {
  if (!answer.ok || answer.redirected) return
  const cache = await caches.open(SHELL)
  await cache.put(request, answer)
  const requests = await cache.keys()
  for (const old of requests.slice(0, Math.max(0, requests.length - MAX_ASSETS))) await cache.delete(old)
}
