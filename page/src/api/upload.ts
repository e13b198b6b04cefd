import type { ApiClient } from './client'
import { encodePath } from './paths'
import { classify, isSuccess, Problem, type ProblemKind } from './problem'
import type { BatchAnswer, Failure, Stored } from './schema'

export interface PutOptions {
  overwrite: boolean
  /** The service keeps the bytes and stores them later, as a task. */
  asTask: boolean
  /** Of the folder, '' for none. */
  password: string
  /** In hexadecimal: the service refuses bytes that do not fit. '' sends none. */
  sha256: string
  signal: AbortSignal
  onprogress: (sent: number) => void
}

/** What the service says of a file that it has taken from somebody without an account. */
export interface Receipt {
  name: string
  size: number // bytes
  sha256: string // '' if the service did not compute it, until the page has
  time: string
}

/** Store a file at a path of the tree; folders that are missing are made. Return the id of the task that stores it, '' if
 *  it is stored. Throws Problem, and an aborted signal's reason. */
export async function put(api: ApiClient, path: string, file: File, options: PutOptions): Promise<string> {
  const { token } = api
  const headers = describeFile(path, file, options)
  if (token) headers.authorization = token
  if (options.asTask) headers['as-task'] = 'true'
  if (options.sha256) headers['x-file-sha256'] = options.sha256
  const request = await sendBytes({ method: 'PUT', url: '/api/fs/put', headers }, file, options)
  readAnswer(api, request, token)
  const { data }: { data: Stored | null } = JSON.parse(request.responseText)
  return data?.task.id ?? ''
}

/** A small file with its bytes, and its SHA-256 in hexadecimal or ''. */
export interface BatchFile {
  path: string
  file: File
  bytes: ArrayBuffer
  sha256: string
}

/** Store small files in one request: for each null, or why it was refused. Throws Problem, and an aborted signal's reason. */
export async function putBatch(
  api: ApiClient,
  files: readonly BatchFile[],
  options: Pick<PutOptions, 'overwrite' | 'password' | 'signal' | 'onprogress'>,
): Promise<(Problem | null)[]> {
  const { token } = api
  const { overwrite, password } = options
  const rows = files.map(({ path, file, bytes, sha256 }) => {
    return { path, size: bytes.byteLength, modified: Math.max(0, file.lastModified), type: file.type, sha256 }
  })
  const manifest = new TextEncoder().encode(JSON.stringify({ overwrite, password, files: rows }))
  const headers: Record<string, string> = {
    'content-type': 'application/octet-stream',
    'x-manifest-size': String(manifest.length),
  }
  if (token) headers.authorization = token
  const body = new Blob([manifest, ...files.map(({ bytes }) => bytes)])
  const request = await sendBytes({ method: 'PUT', url: '/api/fs/put_batch', headers }, body, options)
  readAnswer(api, request, token)
  const { data }: { data: BatchAnswer } = JSON.parse(request.responseText)
  return data.files.map(({ code, message, problem }) =>
    code === 200 ? null : new Problem(classify(problem as Failure['problem']), message, code),
  )
}

/** The headers that say of a file where it goes and what it is. */
export function describeFile(
  path: string,
  file: File,
  { overwrite, password }: Pick<PutOptions, 'overwrite' | 'password'>,
): Record<string, string> {
  const headers: Record<string, string> = {
    'file-path': encodePath(path),
    overwrite: String(overwrite),
    'last-modified': String(Math.max(0, file.lastModified)),
    'content-type': file.type || 'application/octet-stream',
  }
  if (isHeader(password)) headers.password = password
  return headers
}

/** True if a header can say it. */
export function isHeader(text: string): boolean {
  return /^[\x20-\xff]+$/.test(text)
}

export interface BytesRequest {
  method: string
  url: string
  headers: Record<string, string>
}

/**
 * Send bytes, to the service or elsewhere; the answer whatever its status. Throws Problem when there is none, and an
 * aborted signal's reason. An XMLHttpRequest, because `fetch` does not tell how much it has sent.
 */
export function sendBytes(
  { method, url, headers }: BytesRequest,
  body: Blob | ArrayBuffer,
  { signal, onprogress }: Pick<PutOptions, 'signal' | 'onprogress'>,
): Promise<XMLHttpRequest> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    request.open(method, url)
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value)
    const abort = () => request.abort()
    request.upload.onprogress = (event) => onprogress(event.loaded)
    request.onerror = () => reject(new Problem('offline'))
    request.onabort = () => reject(signal.reason)
    request.onload = () => resolve(request)
    request.onloadend = () => signal.removeEventListener('abort', abort)
    signal.addEventListener('abort', abort, { once: true })
    if (signal.aborted) reject(signal.reason)
    else request.send(body)
  })
}

/** See that the service answers with success to what was sent with `token`. Throws Problem. */
export function readAnswer(api: ApiClient, request: XMLHttpRequest, token: string): void {
  const problem = findProblem(request)
  if (!problem) return
  api.noteRefusal(problem.kind, token)
  throw problem
}

function findProblem({ responseText, status }: XMLHttpRequest): Problem | null {
  let answer: { code: 200 } | Failure
  try {
    answer = JSON.parse(responseText)
  } catch {
    return new Problem(status >= 500 ? 'broken' : 'offline')
  }
  if (typeof answer?.code !== 'number') return new Problem(status >= 500 ? 'broken' : 'offline')
  return isSuccess(answer) ? null : new Problem(classify(answer.problem), answer.message, answer.code)
}

/** Send a file to a share, in one request; its receipt. Throws Problem, and an aborted signal's reason. */
export async function putToShare(
  address: string,
  file: File,
  { session, signal, onprogress }: Pick<PutOptions, 'signal' | 'onprogress'> & { session: string },
): Promise<Receipt> {
  const headers = { 'content-type': file.type || 'application/octet-stream', 'x-share-session': session }
  const { status, responseText } = await sendBytes({ method: 'PUT', url: address, headers }, file, {
    signal,
    onprogress,
  })
  const receipt = status === 201 ? readReceipt(responseText) : null
  if (receipt) return receipt
  throw new Problem(STATUS_KINDS[status] ?? (status >= 500 ? 'broken' : 'refused'), readFailure(responseText), status)
}

const STATUS_KINDS: Record<number, ProblemKind> = { 401: 'forbidden', 403: 'forbidden', 404: 'missing', 429: 'busy' }
const RECEIPT = /^(.*) (\d+) bytes sha256:([0-9a-f]*) (\S+)\s*$/s

/** A line of text as the service answers it to an upload; null for another text. */
export function readReceipt(line: string): Receipt | null {
  const [, name, size, sha256, time] = RECEIPT.exec(line) ?? []
  return name && sha256 !== undefined && time ? { name, size: Number(size), sha256, time } : null
}

/** The sentence of a page that says why a request failed; '' where it has none. */
function readFailure(page: string): string {
  return new DOMParser().parseFromString(page, 'text/html').querySelector('p')?.textContent ?? ''
}
