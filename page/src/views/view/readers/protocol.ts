/** What a reader gets and answers. Readers run in a worker of a sandboxed frame without an origin: see public/@assets/reader.html. */

export const MAX_TABLES = 50
export const MAX_TABLE_ROWS = 1000
export const MAX_TABLE_COLUMNS = 200
export const MAX_CELL_LETTERS = 1000
export const MAX_PAGE_LETTERS = 32 * 1024 * 1024 // letters of a document as a page
export const MAX_UNPACKED_BYTES = 512 * 1024 * 1024 // bytes of all members of a document that is a ZIP file

export interface Table {
  name: string
  columns: string[]
  rows: string[][]
  /** The rows of the whole table; null if they are not counted. */
  total: number | null
}

export interface Sound {
  title: string
  artist: string
  album: string
  cover: Blob | null
}

export type Result =
  | { kind: 'page'; html: string }
  | { kind: 'tables'; tables: Table[] }
  | { kind: 'picture'; picture: Blob }
  | { kind: 'sound'; sound: Sound }

/** A file as a reader has it. */
export interface ReaderFile {
  name: string
  size: number
  /** All bytes, or of a file that is read in parts none. */
  bytes: ArrayBuffer
  /** The WebAssembly module of the reader; empty without one. */
  module: ArrayBuffer
  /** Fetch the bytes from `start` up to `end`. */
  slice: (start: number, end: number) => Promise<ArrayBuffer>
}

export type ToReader = { file: Omit<ReaderFile, 'slice'> } | { part: number; bytes: ArrayBuffer }
export type FromReader = { result: Result } | { failure: string } | { part: number; start: number; end: number }

/** Answer the file that the page sends with what `read` makes of it. */
export function serve(read: (file: ReaderFile) => Promise<Result> | Result): void {
  const waiting = new Map<number, (bytes: ArrayBuffer) => void>()
  const answer = (message: FromReader) => postMessage(message)
  let parts = 0
  const slice = (start: number, end: number) =>
    new Promise<ArrayBuffer>((resolve) => {
      const part = parts++
      waiting.set(part, resolve)
      answer({ part, start, end })
    })
  addEventListener('message', async ({ data }: MessageEvent<ToReader>) => {
    if ('part' in data) {
      waiting.get(data.part)?.(data.bytes)
      waiting.delete(data.part)
      return
    }
    try {
      answer({ result: await read({ ...data.file, slice }) })
    } catch (error) {
      answer({ failure: String(error) })
    }
  })
}

/** A table within the bounds, its cells as texts. */
export function makeTable(
  name: string,
  columns: readonly unknown[],
  rows: readonly (readonly unknown[])[],
  total: number | null,
): Table {
  return {
    name,
    columns: columns.slice(0, MAX_TABLE_COLUMNS).map(formatCell),
    rows: rows.slice(0, MAX_TABLE_ROWS).map((row) => row.slice(0, MAX_TABLE_COLUMNS).map(formatCell)),
    total,
  }
}

function formatCell(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (value instanceof Date) return value.toISOString()
  if (value instanceof Uint8Array) return `${value.length} B`
  const text = typeof value === 'object' ? JSON.stringify(value, replaceBigInt) : String(value)
  return text.slice(0, MAX_CELL_LETTERS)
}

function replaceBigInt(_: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value
}

export function escapeHtml(text: string): string {
  return text.replace(
    /[&<>"]/g,
    (letter) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[letter] ?? letter,
  )
}
