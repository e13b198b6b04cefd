import { findShareId, makeSharePath } from '../api/sharepaths'
import type { Receipt } from '../api/upload'
import type { Upload } from './uploads/upload'

const KEY = 'mangrove.drops'
const SAVED_EVERY = 1000 // ms
const MAX_RECEIPTS = 1000 // of one share; the oldest go first

/** A file of which a part was sent before the page was loaded again. */
export interface Unfinished {
  name: string
  size: number // bytes
  sent: number // bytes
}

interface Drops {
  receipts: Receipt[]
  unfinished: Unfinished[]
}

/** What was sent to shares in this tab. It is kept when the page is loaded again. */
class DropHistory {
  #byShare = $state.raw<Record<string, Drops>>(read())
  #saving: ReturnType<typeof setTimeout> | undefined

  listReceipts(root: string): readonly Receipt[] {
    return this.#byShare[root]?.receipts ?? []
  }

  listUnfinished(root: string): readonly Unfinished[] {
    return this.#byShare[root]?.unfinished ?? []
  }

  forget(root: string, name: string): void {
    this.#change(root, ({ receipts, unfinished }) => ({
      receipts,
      unfinished: unfinished.filter((upload) => upload.name !== name),
    }))
  }

  /** Take note of how far an upload is, and of its receipt. */
  observe(upload: Upload): void {
    const id = findShareId(upload.folder)
    if (!id || !upload.file) return
    const { name, size, sent, state, receipt } = upload
    this.#change(makeSharePath(id), ({ receipts, unfinished }) => {
      const others = unfinished.filter((other) => other.name !== name)
      const isOver = state !== 'running' && state !== 'queued'
      return {
        receipts: receipt ? [...receipts, receipt].slice(-MAX_RECEIPTS) : receipts,
        unfinished: isOver || sent === 0 ? others : [...others, { name, size, sent }],
      }
    })
  }

  #change(root: string, change: (drops: Drops) => Drops): void {
    const drops = change(this.#byShare[root] ?? { receipts: [], unfinished: [] })
    this.#byShare = { ...this.#byShare, [root]: drops }
    this.#saving ??= setTimeout(() => {
      this.#saving = undefined
      sessionStorage.setItem(KEY, JSON.stringify(this.#byShare))
    }, SAVED_EVERY)
  }
}

function read(): Record<string, Drops> {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? '{}')
  } catch {
    return {}
  }
}

export const drops = new DropHistory()
