import { caller } from './client'
import { encodePath } from './paths'
import { classify, isSuccess, Problem } from './problem'
import type { Failure } from './schema'

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

/**
 * Store a file at a path of the tree; folders that are missing are made. Throws Problem, and an aborted signal's reason.
 * An XMLHttpRequest, because `fetch` does not tell how much it has sent.
 */
export function put(path: string, file: File, options: PutOptions): Promise<void> {
  const { promise, resolve, reject } = makePromise()
  const { token } = caller
  const { signal, password } = options
  const request = new XMLHttpRequest()
  request.open('PUT', '/api/fs/put')
  request.responseType = 'json'
  request.setRequestHeader('file-path', encodePath(path))
  request.setRequestHeader('overwrite', String(options.overwrite))
  request.setRequestHeader('last-modified', String(Math.max(0, file.lastModified)))
  request.setRequestHeader('content-type', file.type || 'application/octet-stream')
  if (token) request.setRequestHeader('authorization', token)
  if (options.asTask) request.setRequestHeader('as-task', 'true')
  if (options.sha256) request.setRequestHeader('x-file-sha256', options.sha256)
  if (/^[\x20-\xff]+$/.test(password)) request.setRequestHeader('password', password) // more no header can say
  request.upload.onprogress = (event) => options.onprogress(event.loaded)
  request.onerror = () => reject(new Problem('offline'))
  request.onabort = () => reject(signal.reason)
  request.onload = () => {
    const problem = readAnswer(request)
    if (!problem) return resolve()
    if (problem.kind === 'signedOut' && token && token === caller.token) caller.onSignedOut()
    reject(problem)
  }
  signal.addEventListener('abort', () => request.abort(), { once: true })
  if (signal.aborted) reject(signal.reason)
  else request.send(file)
  return promise
}

function makePromise(): { promise: Promise<void>; resolve: () => void; reject: (reason: unknown) => void } {
  let resolve = () => {}
  let reject: (reason: unknown) => void = () => {}
  const promise = new Promise<void>((accept, refuse) => {
    resolve = accept
    reject = refuse
  })
  return { promise, resolve, reject }
}

function readAnswer(request: XMLHttpRequest): Problem | null {
  const answer: { code: 200 } | Failure | null = request.response
  if (typeof answer?.code !== 'number') return new Problem(request.status >= 500 ? 'broken' : 'offline')
  return isSuccess(answer) ? null : new Problem(classify(answer.problem), answer.message, answer.code)
}
