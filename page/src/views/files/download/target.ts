import { save } from '../links'

/** The target of a ZIP. */
export interface Target {
  write: (content: ReadableStream<Uint8Array>, signal: AbortSignal) => Promise<void>
}

interface SaveFilePicker {
  showSaveFilePicker?: (options: { suggestedName: string; types: object[] }) => Promise<FileSystemFileHandle>
}

const TYPES = [{ accept: { 'application/zip': ['.zip'] } }]

/** True if a ZIP of any size can be written as it comes, without a copy in memory. */
export function canStream(): boolean {
  return 'showSaveFilePicker' in window
}

/** Ask where a ZIP is to go; null when the user asks for nothing any more. To be called at a click. */
export async function chooseTarget(name: string): Promise<Target | null> {
  const { showSaveFilePicker } = window as SaveFilePicker
  if (!showSaveFilePicker) return { write: (content) => writeBlob(content, name) }
  try {
    const handle = await showSaveFilePicker.call(window, { suggestedName: name, types: TYPES })
    const file = await handle.createWritable()
    return { write: (content, signal) => content.pipeTo(file, { signal }) }
  } catch (thrown) {
    if (thrown instanceof DOMException && thrown.name === 'AbortError') return null
    throw thrown
  }
}

/** Browsers that cannot be told where to write get the whole file at once. */
async function writeBlob(content: ReadableStream<Uint8Array>, name: string): Promise<void> {
  const type = { headers: { 'content-type': 'application/zip' } }
  const address = URL.createObjectURL(
    await new Response(content as ReadableStream<Uint8Array<ArrayBuffer>>, type).blob(),
  )
  save(address, name)
  setTimeout(() => URL.revokeObjectURL(address), 60_000) // the browser reads it after the click
}
