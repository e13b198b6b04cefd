import type { ApiClient } from './client'
import { encodePath, makeFileAddress } from './paths'
import { classify, isSuccess, Problem, type ProblemKind } from './problem'
import type { Failure } from './schema'

/** The fields of a file that locate its bytes. */
export interface Source {
  raw_url: string
  sign: string
}

/** The address at which the page fetches the bytes of the file at an absolute path: always at the service, since a storage's
 *  own address has another origin. */
export function findAddress(absolutePath: string, { raw_url, sign }: Source): string {
  if (new URL(raw_url, location.href).origin === location.origin) return raw_url
  return makeFileAddress('/p', absolutePath, { d: '1', ...(sign && { sign }) }) // d: no redirect elsewhere
}

/** The first `most` bytes, and the ETag of their version, '' for none. Throws Problem. */
export async function fetchStart(address: string, most: number, signal?: AbortSignal) {
  const answer = await send(address, { headers: { range: `bytes=0-${most - 1}` }, signal: signal ?? null })
  const tag = answer.headers.get('etag') ?? ''
  const total = answer.headers.get('content-range')?.split('/')[1]
  const reader = answer.body?.getReader()
  const bytes = new Uint8Array(most)
  let length = 0
  while (reader) {
    const { done, value } = await reader.read()
    if (done) return { bytes: bytes.subarray(0, length), isWhole: !total || Number(total) === length, tag }
    const part = value.subarray(0, most - length)
    bytes.set(part, length)
    length += part.length
    if (part.length < value.length) {
      await reader.cancel()
      break
    }
  }
  return { bytes: bytes.subarray(0, length), isWhole: !reader, tag }
}

/** All bytes as they arrive. Throws Problem. */
export async function fetchStream(address: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
  return (await send(address, { signal })).body ?? new Blob().stream()
}

/** The ETag of the bytes at the address now, '' for none. Throws Problem. */
export async function fetchTag(address: string): Promise<string> {
  return (await send(address, { method: 'HEAD' })).headers.get('etag') ?? ''
}

/** The bytes from `start` up to `end`. Throws Problem: `broken` if there are fewer. */
export async function fetchRange(
  address: string,
  start: number,
  end: number,
  signal: AbortSignal,
): Promise<ArrayBuffer> {
  const answer = await send(address, { headers: { range: `bytes=${start}-${end - 1}` }, signal })
  const bytes = await answer.arrayBuffer()
  const part = answer.status === 206 ? bytes : bytes.slice(start, end)
  if (part.byteLength !== end - start) throw new Problem('broken', '', answer.status)
  return part
}

/** All bytes, as a blob of that type whatever the service calls it. Throws Problem. */
export async function fetchBlob(address: string, type: string, signal?: AbortSignal): Promise<Blob> {
  const blob = await (await send(address, { signal: signal ?? null })).blob()
  return blob.slice(0, blob.size, type)
}

const KINDS: Record<number, ProblemKind> = { 401: 'forbidden', 403: 'forbidden', 404: 'missing', 429: 'busy' }

/** The token is not sent: an address of bytes has its own signature. */
async function send(address: string, init: RequestInit): Promise<Response> {
  let answer: Response
  try {
    answer = await fetch(address, { ...init, cache: 'no-cache', referrerPolicy: 'no-referrer' })
  } catch (error) {
    if (init.signal?.aborted) throw error
    throw new Problem('offline')
  }
  if (answer.ok) return answer
  if (answer.status === 416) return new Response() // an empty file
  throw new Problem(KINDS[answer.status] ?? 'broken', '', answer.status)
}

/** Put a text in place of what is at the path. Throws Problem. */
export async function putText(api: ApiClient, path: string, text: string): Promise<void> {
  const headers = new Headers({ 'file-path': encodePath(path), overwrite: 'true' })
  if (api.token) headers.set('authorization', api.token)
  const body = new Blob([text]) // without a type: the name tells it
  let answer: { code: 200 } | Failure
  try {
    answer = await (await fetch('/api/fs/put', { method: 'PUT', headers, body })).json()
  } catch {
    throw new Problem('offline')
  }
  if (!isSuccess(answer)) throw new Problem(classify(answer.problem), answer.message, answer.code)
}
