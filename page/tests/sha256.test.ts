import { createHash, randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { sha256 } from '../src/state/uploads/sha256'

test('the sum is that of other programs, for every length around a block', async () => {
  for (let length = 0; length <= 130; length++) {
    const bytes = randomBytes(length)
    expect(await sha256(new Blob([bytes]))).toBe(createHash('sha256').update(bytes).digest('hex'))
  }
})

test('blocks of any size have the sum of the whole file', async () => {
  const parts = [1, 63, 64, 65, 100_000, 3, 2 ** 20 + 7].map((size) => randomBytes(size))
  const stream = () =>
    new ReadableStream({
      start(controller) {
        for (const part of parts) controller.enqueue(new Uint8Array(part))
        controller.close()
      },
    })
  const expected = createHash('sha256')
  for (const part of parts) expected.update(part)
  expect(await sha256({ stream } as unknown as Blob)).toBe(expected.digest('hex'))
})
