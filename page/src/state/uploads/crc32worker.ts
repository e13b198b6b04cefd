import { crc32 } from './crc32'

/** A blob whose checksum is requested, and the answer: '' if the blob cannot be read. */
export interface ChecksumRequest {
  id: number
  blob: Blob
}

export interface ChecksumAnswer {
  id: number
  sum: string
}

self.onmessage = async ({ data: { id, blob } }: MessageEvent<ChecksumRequest>) => {
  const sum = await blob.arrayBuffer().then(
    (bytes) => crc32(new Uint8Array(bytes)),
    () => '',
  )
  const answer: ChecksumAnswer = { id, sum }
  self.postMessage(answer)
}
