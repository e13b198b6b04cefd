import type { ApiClient } from '../../api/client'
import { findNameFault, isTaken, makeFolder } from '../../api/files'
import { join } from '../../api/paths'
import { Problem } from '../../api/problem'
import { findShareId } from '../../api/sharepaths'
import { type BatchFile, put, putBatch } from '../../api/upload'
import type { FolderPasswords } from '../passwords'
import type { Site } from '../site.svelte'
import type { Stores } from '../stores'
import { addNumber } from './names'
import { sendInParts } from './parts'
import { sendToShare } from './sendtoshare'
import type { Fault, Upload } from './upload'

export type UploadStores = Pick<Stores, 'api' | 'drops' | 'passwords' | 'site'>

const ASKED_FIRST = 4 * 2 ** 20 // bytes from which it is asked whether a name is taken before they are all sent in vain
const TOO_LARGE = 413 // what a function of the cloud says of a body that is larger than it can take
const HASHED = 16 * 2 ** 20 // bytes up to which a hash goes with a file: browsers hash only what is in memory at once

/** Put one upload where it belongs, a large one in parts; the id of the task that stores it, '' if it is stored. Throws
 *  Problem (`exists` when the name is taken), or the signal's reason. */
export async function send(
  stores: UploadStores,
  upload: Upload,
  asTask: boolean,
  signal: AbortSignal,
  onprogress: (sent: number) => void,
): Promise<string> {
  const { api, passwords, site } = stores
  const { file, folder, choice } = upload
  if (findShareId(folder)) {
    const isLarge = site.isOn('multipart_enabled') && upload.size > findChunkSize(site)
    upload.receipt = await sendToShare(stores, upload, isLarge, signal, onprogress)
    return ''
  }
  if (!file) {
    await makeFolder(api, folder, upload.name)
    return ''
  }
  const password = passwords.find(folder)
  if (choice === 'keepBoth') upload.storedAs = await findFreeName(api, folder, upload.name, password)
  else if (choice !== 'replace' && file.size >= ASKED_FIRST && (await isTaken(api, upload.path, password))) {
    throw new Problem('exists')
  }
  const options = { overwrite: choice === 'replace', password, signal, onprogress }
  const canSplit = site.isOn('multipart_enabled') && file.size > 0
  if (canSplit && file.size > findChunkSize(site)) return sendInParts(api, upload.path, file, options)
  const sha256 = await hash(file)
  signal.throwIfAborted()
  try {
    return await put(api, upload.path, file, { ...options, asTask, sha256 })
  } catch (thrown) {
    if (canSplit && thrown instanceof Problem && thrown.code === TOO_LARGE) {
      return sendInParts(api, upload.path, file, options)
    }
    throw thrown
  }
}

const MAX_BATCHED_BYTES = 256 * 1024 // of a file that is sent with others
const MAX_BATCH_BYTES = 2 * 2 ** 20
const MAX_BATCH_FILES = 100 // the service takes no more
const MIN_BATCH_FILES = 20 // fewer are sent one by one

/** The number of uploads at the head of a queue that go in one request: 1 unless many small ones have the same conditions. */
export function countBatch(passwords: FolderPasswords, queue: readonly Upload[]): number {
  const [first] = queue
  let count = 0
  let bytes = 0
  for (const upload of queue) {
    bytes += upload.size
    if (count === MAX_BATCH_FILES || bytes > MAX_BATCH_BYTES || !first || !goTogether(passwords, first, upload)) break
    count++
  }
  return count < MIN_BATCH_FILES ? 1 : count
}

function goTogether(passwords: FolderPasswords, first: Upload, upload: Upload): boolean {
  const { file, size, folder, choice, batch } = upload
  if (!file || size > MAX_BATCHED_BYTES || choice === 'keepBoth' || findShareId(folder)) return false
  const isSameFolder = folder === first.folder || passwords.find(folder) === passwords.find(first.folder)
  return isSameFolder && choice === first.choice && batch === first.batch
}

/** Read small files. Not as one Blob of all: to make it, Chromium asks the disk twice about each file, and waits. */
export function readBatch(uploads: readonly Upload[]): Promise<ReadFile[]> {
  return Promise.all(uploads.map(readFile))
}

/** Put small files where they belong in one request: for each null, or what was thrown for it alone. Throws Problem, or
 *  the signal's reason. `onprogress` is told the part of all bytes. */
export async function sendBatch(
  { api, passwords }: UploadStores,
  uploads: readonly Upload[],
  read: readonly ReadFile[],
  signal: AbortSignal,
  onprogress: (part: number) => void,
): Promise<unknown[]> {
  signal.throwIfAborted()
  const files = read.flatMap(({ file }) => file ?? [])
  const [first] = uploads
  if (!first || files.length === 0) return read.map(({ thrown }) => thrown)
  const bytes = files.reduce((sum, file) => sum + file.bytes.byteLength, 1)
  const problems = await putBatch(api, files, {
    overwrite: first.choice === 'replace',
    password: passwords.find(first.folder),
    signal,
    onprogress: (sent) => onprogress(Math.min(sent / bytes, 1)),
  })
  return read.map(({ file, thrown }) => (file ? (problems.shift() ?? null) : thrown))
}

export type ReadFile = { file: BatchFile; thrown: null } | { file: null; thrown: unknown }

async function readFile({ file, path }: Upload): Promise<ReadFile> {
  try {
    if (!file) throw new Error(`${path} is a folder`)
    const bytes = await file.arrayBuffer()
    return { file: { path, file, bytes, sha256: await hashBytes(bytes) }, thrown: null }
  } catch (thrown) {
    return { file: null, thrown }
  }
}

/** Bytes of a part as the site wants it. */
function findChunkSize(site: Site): number {
  return (Number(site.get('multipart_chunk_size')) || 10) * 2 ** 20
}

async function findFreeName(api: ApiClient, folder: string, name: string, password: string): Promise<string> {
  for (let number = 2; ; number++) {
    const next = addNumber(name, number)
    if (!(await isTaken(api, join(folder, next), password))) return next
  }
}

async function hash(file: File): Promise<string> {
  return file.size > HASHED || !globalThis.crypto?.subtle ? '' : hashBytes(await file.arrayBuffer())
}

async function hashBytes(bytes: ArrayBuffer): Promise<string> {
  if (!globalThis.crypto?.subtle) return ''
  const digest = await crypto.subtle.digest('SHA-256', bytes)
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
