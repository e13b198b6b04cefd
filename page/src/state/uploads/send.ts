import { findNameFault, get, makeFolder } from '../../api/files'
import { join } from '../../api/paths'
import { asProblem, Problem } from '../../api/problem'
import { put } from '../../api/upload'
import { passwords } from '../passwords'
import { addNumber } from './names'
import type { Fault, Upload } from './upload'

const ASKED_FIRST = 4 * 2 ** 20 // bytes from which it is asked whether a name is taken before they are all sent in vain
const HASHED = 16 * 2 ** 20 // bytes up to which a hash goes with a file: browsers hash only what is in memory at once

/** Put one upload where it belongs. Throws Problem (`exists` when the name is taken), or the signal's reason. */
export async function send(
  upload: Upload,
  asTask: boolean,
  signal: AbortSignal,
  onprogress: (sent: number) => void,
): Promise<void> {
  const { file, folder, choice } = upload
  if (!file) return makeFolder(folder, upload.name)
  const password = passwords.find(folder)
  if (choice === 'keepBoth') upload.storedAs = await findFreeName(folder, upload.name, password)
  else if (choice !== 'replace' && file.size >= ASKED_FIRST && (await isTaken(upload.path, password))) {
    throw new Problem('exists')
  }
  const sha256 = await hash(file)
  signal.throwIfAborted()
  await put(upload.path, file, { overwrite: choice === 'replace', asTask, password, sha256, signal, onprogress })
}

async function findFreeName(folder: string, name: string, password: string): Promise<string> {
  for (let number = 2; ; number++) {
    const next = addNumber(name, number)
    if (!(await isTaken(join(folder, next), password))) return next
  }
}

async function isTaken(path: string, password: string): Promise<boolean> {
  try {
    await get(path, password)
    return true
  } catch (thrown) {
    const { kind } = asProblem(thrown)
    if (kind === 'signedOut' || kind === 'offline') throw thrown
    return false // the upload itself will tell
  }
}

async function hash(file: File): Promise<string> {
  if (file.size > HASHED || !globalThis.crypto?.subtle) return ''
  const digest = await crypto.subtle.digest('SHA-256', await file.arrayBuffer())
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** What is wrong with the name of an upload or of a folder that it lies in; null when nothing is known to be. */
export function findFault({ batch, path }: Upload): Fault | null {
  const below = path.slice(batch.folder === '/' ? 1 : batch.folder.length + 1)
  for (const name of below.split('/')) {
    const fault = findNameFault(name)
    if (fault) return { name, fault }
  }
  return null
}

/** Whether this device still gives the file out: a browser says of one that it does not the same as without a network. */
export async function isReadable(file: File): Promise<boolean> {
  try {
    await file.slice(0, 1).arrayBuffer()
    return true
  } catch {
    return false
  }
}

/** Whether the service can be reached at all. */
export async function isReachable(): Promise<boolean> {
  try {
    return (await fetch('/ping')).ok
  } catch {
    return false
  }
}
