import type { ChecksumAnswer, ChecksumRequest } from './crc32worker'

interface Waiting {
  resolve: (sum: string) => void
  reject: (reason: unknown) => void
}

/** Computes checksums of blobs in a worker, so that the page answers meanwhile. */
export class Checksums {
  #worker = new Worker(new URL('./crc32worker.ts', import.meta.url), { type: 'module' })
  #waiting = new Map<number, Waiting>()
  #last = 0

  constructor() {
    this.#worker.onmessage = ({ data: { id, sum } }: MessageEvent<ChecksumAnswer>) => {
      const waiting = this.#waiting.get(id)
      this.#waiting.delete(id)
      if (sum) waiting?.resolve(sum)
      else waiting?.reject(new DOMException('the file cannot be read', 'NotReadableError'))
    }
    this.#worker.onerror = () => this.close(new Error('the worker of the checksums failed'))
  }

  /** Return the CRC-32 of a blob in the form of a chunk's header. Throws DOMException if it cannot be read. */
  add(blob: Blob): Promise<string> {
    const request: ChecksumRequest = { id: ++this.#last, blob }
    return new Promise((resolve, reject) => {
      this.#waiting.set(request.id, { resolve, reject })
      this.#worker.postMessage(request)
    })
  }

  /** End the worker; sums that are missing fail for the reason. */
  close(reason?: unknown): void {
    this.#worker.terminate()
    for (const { reject } of this.#waiting.values()) reject(reason)
    this.#waiting.clear()
  }
}
