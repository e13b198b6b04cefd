/** Addresses of blobs. A blob's own address has no name, and the browser's viewer of PDF files shows the end of the address
 * as the title; the service worker answers at an address that ends with the name: see public/sw.js. */
export interface NamedFile {
  address: string
  /** Releases the memory. */
  close: () => void
}

const MAX_ANSWER_SECONDS = 2 // of the service worker

/** The address of a PDF file with its name; without a service worker, that of the blob. */
export async function openNamedFile(blob: Blob, name: string): Promise<NamedFile> {
  const worker = 'serviceWorker' in navigator ? navigator.serviceWorker.controller : null
  const path = `/@pdf/${randomId()}/${encodeURIComponent(name)}`
  if (worker && (await keep(worker, path, blob))) {
    return { address: path, close: () => worker.postMessage({ path }) }
  }
  const address = URL.createObjectURL(blob)
  return { address, close: () => URL.revokeObjectURL(address) }
}

/** False if the worker does not answer: a former version does not know what it is asked. */
function keep(worker: ServiceWorker, path: string, blob: Blob): Promise<boolean> {
  const { port1, port2 } = new MessageChannel()
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), MAX_ANSWER_SECONDS * 1000)
    port1.onmessage = () => {
      clearTimeout(timer)
      resolve(true)
    }
    worker.postMessage({ path, blob }, [port2])
  })
}

function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
