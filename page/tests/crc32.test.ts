import { crc32 as crcOfZlib } from 'node:zlib'
import { expect, test } from 'vitest'
import { crc32 } from '../src/state/uploads/crc32'

function encode(sum: number): string {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(sum)
  return bytes.toString('base64')
}

test('the sum of the digits is the known one', async () => {
  expect(crc32(new TextEncoder().encode('123456789'))).toBe(encode(0xcbf43926))
})

test('the sum is that of zlib at any length and offset', async () => {
  const bytes = Uint8Array.from({ length: 2 ** 21 + 13 }, (_, index) => (index * 7919) >>> 3)
  for (const [start, end] of [
    [0, 0],
    [0, 1],
    [1, 8],
    [3, 12],
    [5, 2 ** 20 + 5],
    [7, bytes.length],
  ] as const) {
    const part = bytes.subarray(start, end)
    expect(crc32(part)).toBe(encode(crcOfZlib(part)))
  }
})
