import type { ApiClient } from './client'
import type { UploadSnapshot } from './schema'
import { type BytesRequest, describeFile, isHeader, type PutOptions } from './upload'

/** Begin an upload in chunks, or go on with one of the same file. Throws Problem. */
export function begin(
  api: ApiClient,
  path: string,
  file: File,
  options: Pick<PutOptions, 'overwrite' | 'password' | 'signal'>,
): Promise<UploadSnapshot> {
  const headers = { ...describeFile(path, file, options), 'x-file-size': String(file.size) }
  return api.call('post', '/api/fs/multipart/init', { headers, signal: options.signal })
}

/** The request by which a chunk passes through the service. */
export function makeChunkRequest(api: ApiClient, id: string, index: number, crc32: string): BytesRequest {
  const headers: Record<string, string> = {
    'x-upload-id': id,
    'x-chunk-index': String(index),
    'x-chunk-crc32': crc32,
    'content-type': 'application/octet-stream',
  }
  if (api.token) headers.authorization = api.token
  return { method: 'PUT', url: '/api/fs/multipart/chunk', headers }
}

/** The request by which a chunk goes to the storage itself. Throws Problem. */
export async function sign(
  api: ApiClient,
  id: string,
  index: number,
  crc32: string,
  signal: AbortSignal,
): Promise<BytesRequest> {
  const body = { upload_id: id, chunks: [{ index, crc32 }] }
  const [chunk] = (await api.call('post', '/api/fs/multipart/sign', { body, signal })).chunks
  if (!chunk) throw new Error('a chunk was not signed')
  return chunk
}

/** Have the file made of its chunks. Throws Problem. */
export function complete(
  api: ApiClient,
  id: string,
  password: string,
  signal: AbortSignal,
  others: Record<string, string> = {},
): Promise<UploadSnapshot> {
  const headers: Record<string, string> = { ...others, 'x-upload-id': id }
  if (isHeader(password)) headers.password = password
  return api.call('post', '/api/fs/multipart/complete', { headers, signal })
}

/** Give an upload up. Throws Problem. */
export function abort(api: ApiClient, id: string): Promise<UploadSnapshot> {
  return api.call('post', '/api/fs/multipart/abort', { headers: { 'x-upload-id': id } })
}
