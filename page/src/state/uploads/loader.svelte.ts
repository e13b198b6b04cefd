import type { UploadQueue, UploadQueueStores } from '../uploads.svelte'

const PREFETCH_MS = 3000 // after which the queue is fetched, so that it is there during an outage

/** The queue of uploads, which is loaded at its first use. */
export class UploadsLoader {
  queue = $state.raw<UploadQueue | null>(null)

  constructor(private stores: UploadQueueStores) {}

  /** Load the module that finds files, and the queue that takes them. */
  async load() {
    const [found, { UploadQueue }] = await Promise.all([import('./found'), import('../uploads.svelte')])
    this.queue ??= new UploadQueue(this.stores)
    return { ...found, queue: this.queue }
  }

  /** Load it when the first list is there. Return a function that ends the wait. */
  prefetch(): () => void {
    const timer = setTimeout(() => void this.load().catch(() => {}), PREFETCH_MS)
    return () => clearTimeout(timer)
  }
}
