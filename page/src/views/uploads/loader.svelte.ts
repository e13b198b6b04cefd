import type { UploadQueue } from '../../state/uploads.svelte'

const PREFETCH_MS = 3000 // after which the queue is fetched, so that it is there during an outage

/** The queue of uploads, which is loaded at its first use. */
class UploadsLoader {
  queue = $state.raw<UploadQueue | null>(null)

  /** Load the module that finds files and queues them. */
  async load(): Promise<typeof import('./found')> {
    const [found, { uploads }] = await Promise.all([import('./found'), import('../../state/uploads.svelte')])
    this.queue = uploads
    return found
  }

  /** Load it when the first list is there. Return a function that ends the wait. */
  prefetch(): () => void {
    const timer = setTimeout(() => void this.load().catch(() => {}), PREFETCH_MS)
    return () => clearTimeout(timer)
  }
}

export const uploadsLoader = new UploadsLoader()
