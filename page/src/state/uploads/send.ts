import { findNameFault, isTaken, makeFolder } from '../../api/files'
import { join } from '../../api/paths'
import { Problem } from '../../api/problem'
import { findShareId } from '../../api/sharepaths'
import { put } from '../../api/upload'
import { passwords } from '../passwords'
import { site } from '../site.svelte'
import { addNumber } from './names'
import { sendInParts } from './parts'
import { sendToShare } from './sendtoshare'
import type { Fault, Upload } from './upload'

const ASKED_FIRST = 4 * 2 ** 20 // bytes from which it is asked whether a name is taken before they are all sent in vain
const TOO_LARGE = 413 // what a function of the cloud says of a body that is larger than it can take
const HASHED = 16 * 2 ** 20 // bytes up to which a hash goes with a file: browsers hash only what is in memory at once

/** Put one upload where it belongs, a large one in parts; the id of the task that stores it, '' if it is stored. Throws
 *  Problem (`exists` when the name is taken), or the signal's reason. */
export async function send(
  upload: Upload,
  asTask: boolean,
  signal: AbortSignal,
  onprogress: (sent: number) => void,
): Promise<string> {
  const { file, folder, choice } = upload
  if (findShareId(folder)) {
    const isLarge = site.isOn('multipart_enabled') && upload.size > findChunkSize()
    upload.receipt = await sendToShare(upload, isLarge, signal, onprogress)
    return ''
  }
  if (!file) {
    await makeFolder(folder, upload.name)
    return ''
  }
  const password = passwords.find(folder)
  if (choice === 'keepBoth') upload.storedAs = await findFreeName(folder, upload.name, password)
  else if (choice !== 'replace' && file.size >= ASKED_FIRST && (await isTaken(upload.path, password))) {
    throw new Problem('exists')
  }
  const options = { overwrite: choice === 'replace', password, signal, onprogress }
  const canSplit = site.isOn('multipart_enabled') && file.size > 0
  if (canSplit && file.size > findChunkSize()) return sendInParts(upload.path, file, options)
  const sha256 = await hash(file)
  signal.throwIfAborted()
  try {
    return await put(upload.path, file, { ...options, asTask, sha256 })
  } catch (thrown) {
    if (canSplit && thrown instanceof Problem && thrown.code === TOO_LARGE) {
      return sendInParts(upload.path, file, options)
    }
    throw thrown
  }
}

/** Bytes of a part as the site wants it. */
function findChunkSize(): number {
  return (Number(site.get('multipart_chunk_size')) || 10) * 2 ** 20
}

async function findFreeName(folder: string, name: string, password: string): Promise<string> {
  for (let number = 2; ; number++) {
    const next = addNumber(name, number)
    if (!(await isTaken(join(folder, next), password))) return next
  }
}

async function hash(file: File): Promise<string> {
  if (file.size > HASHED || !globalThis.crypto?.subtle) return ''
  const digest = await crypto.subtle.digest('SHA-256', await file.arrayBuffer())
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Return the fault of the name of an upload or of a folder above it; null if none is known. */
export function findFault({ batch, path }: Upload): Fault | null {
  const below = path.slice(batch.folder === '/' ? 1 : batch.folder.length + 1)
  for (const name of below.split('/')) {
    const fault = findNameFault(name)
    if (fault) return { name, fault }
  }
  return null
}

/** True if the file can still be read: a browser reports an unreadable file like a missing network. */
export async function isReadable(file: File): Promise<boolean> {
  try {
    await file.slice(0, 1).arrayBuffer()
    return true
  } catch {
    return false
  }
}
