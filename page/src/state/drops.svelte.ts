import { findShareId, makeSharePath } from '../api/sharepaths'
import type { Receipt } from '../api/upload'
import { sha256 } from './uploads/sha256'
import type { Upload } from './uploads/upload'

const KEY = 'mangrove.drops'
const SAVED_EVERY = 1000 // ms
const MAX_RECEIPTS = 1000 // of one share; the oldest go first

/** A file of which a part was sent before the page was loaded again. */
export interface Unfinished {
  name: string
  size: number // bytes
  sent: number // bytes
  modified: number // milliseconds since the epoch
  id: string // of the upload in parts
}

const SESSION_KEY = 'mangrove.drop-session'

interface Drops {
  receipts: Receipt[]
  unfinished: Unfinished[]
}

/** What was sent to shares in this tab. It is kept when the page is loaded again. */
export class DropHistory {
  #byShare = $state.raw<Record<string, Drops>>(read())
  #saving: ReturnType<typeof setTimeout> | undefined
  #summed = $state.raw<readonly string[]>([]) // keys of receipts whose checksum is being computed

  listReceipts(root: string): readonly Receipt[] {
    return this.#byShare[root]?.receipts ?? []
  }

  listUnfinished(root: string): readonly Unfinished[] {
    return this.#byShare[root]?.unfinished ?? []
  }

  /** A text by which the service knows what was sent in this tab. */
  get session(): string {
    const known = sessionStorage.getItem(SESSION_KEY)
    if (known) return known
    const made = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16)).join('')
    sessionStorage.setItem(SESSION_KEY, made)
    return made
  }

  /** Take note of an upload in parts. */
  begin(root: string, { name, size, lastModified }: File, id: string): void {
    this.#change(root, ({ receipts, unfinished }) => {
      const others = unfinished.filter((upload) => upload.name !== name)
      const sent = unfinished.find((upload) => upload.id === id)?.sent ?? 0
      return { receipts, unfinished: [...others, { name, size, sent, modified: lastModified, id }] }
    })
  }

  /** The upload in parts of a file that was begun before; '' if there is none. */
  findUpload(root: string, { name, size, lastModified }: File): string {
    const isSame = (upload: Unfinished) =>
      upload.name === name && upload.size === size && upload.modified === lastModified
    return this.listUnfinished(root).find(isSame)?.id ?? ''
  }

  forget(root: string, name: string): void {
    this.#change(root, ({ receipts, unfinished }) => ({
      receipts,
      unfinished: unfinished.filter((upload) => upload.name !== name),
    }))
  }

  /** Take note of how far an upload is, and of its receipt. */
  observe(upload: Upload): void {
    const share = findShareId(upload.folder)
    if (!share || !upload.file) return
    const { name, sent, state, receipt, file } = upload
    const root = makeSharePath(share)
    this.#change(root, ({ receipts, unfinished }) => {
      const known = unfinished.find((other) => other.name === name)
      const others = unfinished.filter((other) => other !== known)
      const isOver = state !== 'running' && state !== 'queued' && state !== 'failed' // one that failed goes on
      return {
        receipts: receipt ? [...receipts, receipt].slice(-MAX_RECEIPTS) : receipts,
        unfinished: isOver || !known ? others : [...others, { ...known, sent }],
      }
    })
    if (receipt && !receipt.sha256) void this.#addChecksum(root, receipt, file)
  }

  /** True while the page computes the checksum of a receipt. */
  isComputing(receipt: Receipt): boolean {
    return this.#summed.includes(makeKey(receipt))
  }

  /** Compute what the service did not: it cannot read a very large file within a request. Every part was compared with
   *  its checksum when it was stored, so the file here is the file there. */
  async #addChecksum(root: string, receipt: Receipt, file: File): Promise<void> {
    const key = makeKey(receipt)
    this.#summed = [...this.#summed, key]
    try {
      const sum = await sha256(file)
      this.#change(root, ({ receipts, unfinished }) => ({
        receipts: receipts.map((other) => (makeKey(other) === key ? { ...other, sha256: sum } : other)),
        unfinished,
      }))
    } catch {
      // the file cannot be read any more: its receipt has no checksum
    } finally {
      this.#summed = this.#summed.filter((other) => other !== key)
    }
  }

  #change(root: string, change: (drops: Drops) => Drops): void {
    const before = this.#byShare[root] ?? { receipts: [], unfinished: [] }
    const after = change(before)
    this.#byShare = { ...this.#byShare, [root]: after }
    if (after.receipts !== before.receipts || after.unfinished.length !== before.unfinished.length) this.#save()
    else this.#saving ??= setTimeout(() => this.#save(), SAVED_EVERY)
  }

  #save(): void {
    clearTimeout(this.#saving)
    this.#saving = undefined
    sessionStorage.setItem(KEY, JSON.stringify(this.#byShare))
  }
}

function makeKey({ name, size, time }: Receipt): string {
  return `${name}/${size}/${time}`
}

function read(): Record<string, Drops> {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? '{}')
  } catch {
    return {}
  }
}
