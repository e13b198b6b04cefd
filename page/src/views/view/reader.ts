import { fetchRange } from '../../api/bytes'
import { Problem } from '../../api/problem'
import {
  type FromReader,
  MAX_PAGE_LETTERS,
  MAX_TABLE_COLUMNS,
  MAX_TABLE_ROWS,
  MAX_TABLES,
  type Result,
  type ToReader,
} from './readers/protocol'

const FRAME = '/@assets/reader.html'
const MAX_SECONDS = 60
const MAX_BYTES = 64 * 1024 * 1024 // of a file that is read as a whole
const MAX_HEAD_BYTES = 4 * 1024 * 1024 // of a file whose beginning is enough
const MAX_PART_BYTES = 64 * 1024 * 1024 // of a part that a reader asks for

interface Reader {
  /** Load the address of the script. */
  load: () => Promise<{ default: string }>
  /** The part of the file that is sent: parts are fetched when the reader asks for them. */
  sends: 'all' | 'head' | 'parts'
  /** Load the address of its WebAssembly module. */
  loadModule?: () => Promise<{ default: string }>
}

const READERS = {
  csv: { load: () => import('./readers/csv?worker&url'), sends: 'head' },
  docx: { load: () => import('./readers/docx?worker&url'), sends: 'all' },
  epub: { load: () => import('./readers/epub?worker&url'), sends: 'all' },
  heic: {
    load: () => import('./readers/heic?worker&url'),
    sends: 'all',
    loadModule: () => import('libheif-js/libheif-wasm/libheif.wasm?url'),
  },
  opendocument: { load: () => import('./readers/opendocument?worker&url'), sends: 'all' },
  parquet: { load: () => import('./readers/parquet?worker&url'), sends: 'parts' },
  raw: { load: () => import('./readers/raw?worker&url'), sends: 'all' },
  sheet: { load: () => import('./readers/sheet?worker&url'), sends: 'all' },
  slides: { load: () => import('./readers/slides?worker&url'), sends: 'all' },
  sound: { load: () => import('./readers/sound?worker&url'), sends: 'head' },
  sqlite: {
    load: () => import('./readers/sqlite?worker&url'),
    sends: 'all',
    loadModule: () => import('sql.js/dist/sql-wasm.wasm?url'),
  },
} as const satisfies Record<string, Reader>
export type ReaderName = keyof typeof READERS

interface File {
  name: string
  size: number
  address: string
}

/** The size up to which a reader reads files, in bytes; no bound for one that reads a part. */
export function findMaxBytes(name: ReaderName): number {
  return READERS[name].sends === 'all' ? MAX_BYTES : Number.POSITIVE_INFINITY
}

/** Read a file in a frame without an origin. Throws Problem: `broken` if it is no such file, or takes too long. */
export async function read(name: ReaderName, file: File, signal: AbortSignal): Promise<Result> {
  const reader: Reader = READERS[name]
  const [script, module, bytes] = await Promise.all([
    reader.load().then(({ default: address }) => fetchText(address)),
    reader.loadModule ? reader.loadModule().then(({ default: address }) => fetchBytes(address)) : new ArrayBuffer(0),
    fetchSent(reader, file, signal),
  ])
  signal.throwIfAborted()
  const frame = await openFrame()
  try {
    const result = await run(frame, script, { file: { name: file.name, size: file.size, bytes, module } }, file, signal)
    return check(result)
  } finally {
    frame.remove()
  }
}

function fetchSent(reader: Reader, { address, size }: File, signal: AbortSignal): Promise<ArrayBuffer> {
  const most = { all: size, head: Math.min(size, MAX_HEAD_BYTES), parts: 0 }[reader.sends]
  return most === 0 ? Promise.resolve(new ArrayBuffer(0)) : fetchRange(address, 0, most, signal)
}

function openFrame(): Promise<HTMLIFrameElement> {
  const frame = document.createElement('iframe')
  frame.hidden = true
  frame.sandbox.add('allow-scripts')
  frame.referrerPolicy = 'no-referrer'
  frame.title = ''
  frame.src = FRAME
  return new Promise((resolve, reject) => {
    frame.onload = () => resolve(frame)
    frame.onerror = () => reject(new Problem('offline'))
    document.body.append(frame)
  })
}

function run(
  frame: HTMLIFrameElement,
  script: string,
  message: ToReader,
  file: File,
  signal: AbortSignal,
): Promise<Result> {
  return new Promise((resolve, reject) => {
    const listening = new AbortController()
    const end = (settle: () => void) => {
      clearTimeout(timer)
      listening.abort()
      settle()
    }
    const fail = (reason: string) => end(() => reject(new Problem('broken', reason)))
    const timer = setTimeout(() => fail('timeout'), MAX_SECONDS * 1000)
    signal.addEventListener('abort', () => end(() => reject(signal.reason)), { signal: listening.signal })
    addEventListener(
      'message',
      ({ source, data }: MessageEvent<FromReader>) => {
        if (source !== frame.contentWindow) return
        if ('result' in data) end(() => resolve(data.result))
        else if ('failure' in data) fail(data.failure)
        else void sendPart(frame, file, data, signal).catch((thrown) => end(() => reject(thrown)))
      },
      { signal: listening.signal },
    )
    send(frame, { script, message, transfer: [] })
  })
}

async function sendPart(
  frame: HTMLIFrameElement,
  file: File,
  { part, start, end }: { part: number; start: number; end: number },
  signal: AbortSignal,
) {
  if (!(start >= 0 && start < end && end <= file.size && end - start <= MAX_PART_BYTES))
    throw new Problem('broken', 'part')
  send(frame, { message: { part, bytes: await fetchRange(file.address, start, end, signal) } satisfies ToReader })
}

function send(frame: HTMLIFrameElement, data: object): void {
  frame.contentWindow?.postMessage(data, '*') // the frame has no origin to name
}

/** What a hostile file made of its reader is bounded once more. */
function check(result: Result): Result {
  switch (result.kind) {
    case 'page':
      if (typeof result.html !== 'string' || result.html.length > MAX_PAGE_LETTERS) throw new Problem('broken', 'page')
      return result
    case 'tables':
      return {
        kind: 'tables',
        tables: result.tables.slice(0, MAX_TABLES).map(({ name, columns, rows, total }) => ({
          name: String(name),
          columns: columns.slice(0, MAX_TABLE_COLUMNS).map(String),
          rows: rows.slice(0, MAX_TABLE_ROWS).map((row) => row.slice(0, MAX_TABLE_COLUMNS).map(String)),
          total: total === null ? null : Number(total),
        })),
      }
    case 'picture':
      return { kind: 'picture', picture: asPicture(result.picture) }
    case 'sound': {
      const { title, artist, album, cover } = result.sound
      return {
        kind: 'sound',
        sound: { title: String(title), artist: String(artist), album: String(album), cover: cover && asPicture(cover) },
      }
    }
  }
}

/** A blob as a picture that runs no script. */
function asPicture(blob: Blob): Blob {
  const type = ['image/jpeg', 'image/png', 'image/webp', 'image/gif'].find((known) => known === blob.type)
  return blob.slice(0, blob.size, type ?? 'image/jpeg')
}

async function fetchText(address: string): Promise<string> {
  return new TextDecoder().decode(await fetchBytes(address))
}

async function fetchBytes(address: string): Promise<ArrayBuffer> {
  try {
    const answer = await fetch(address)
    if (answer.ok) return await answer.arrayBuffer()
  } catch {
    // as an answer that is no success
  }
  throw new Problem('offline')
}
