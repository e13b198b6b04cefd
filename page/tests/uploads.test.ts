import { expect, test } from 'vitest'
import { readReceipt } from '../src/api/upload'
import { FolderPasswords } from '../src/state/passwords'
import { crc32 } from '../src/state/uploads/crc32'
import { addNumber } from '../src/state/uploads/names'
import { listMissing } from '../src/state/uploads/parts'
import { countBatch, findFault } from '../src/state/uploads/send'
import { Speed } from '../src/state/uploads/speed'
import { sort, summarize } from '../src/state/uploads/summary'
import { Batch, Upload, type UploadState } from '../src/state/uploads/upload'

test.each([
  ['a.txt', 'a (2).txt'],
  ['a', 'a (2)'],
  ['.bashrc', '.bashrc (2)'],
  ['a.tar.gz', 'a.tar (2).gz'],
  [`${'é'.repeat(125)}.txt`, `${'é'.repeat(123)} (2).txt`],
])('%s kept beside another one is %s', (name, other) => {
  expect(addNumber(name, 2)).toBe(other)
  expect(new TextEncoder().encode(addNumber(name, 2)).length).toBeLessThanOrEqual(255)
})

function make(state: UploadState, size: number, folder = '/f', name = 'a'): Upload {
  const upload = new Upload(new Batch('/f'), folder, name, new File(['x'.repeat(size)], name))
  upload.state = state
  return upload
}

test('a list comes to what is not given up', () => {
  const running = make('running', 10)
  running.sent = 4
  const { count, finished, size, sent, by } = summarize([
    make('done', 3),
    running,
    make('failed', 7),
    make('queued', 5),
  ])
  expect({ count, finished, size, sent }).toEqual({ count: 4, finished: 2, size: 18, sent: 7 })
  expect(by.failed).toBe(1)
})

test('what runs stands first, what is done last', () => {
  const states: UploadState[] = ['done', 'queued', 'failed', 'running']
  expect(sort(states.map((state) => make(state, 1))).map(({ state }) => state)).toEqual(states.toReversed())
})

test('names that cannot be are found before they are sent', () => {
  expect(findFault(make('queued', 1, '/f/sub', 'a.txt'))).toBeNull()
  expect(findFault(make('queued', 1, '/f/b\\c', 'a.txt'))).toEqual({ name: 'b\\c', fault: 'slash' })
  expect(findFault(make('queued', 1, '/f', 'é'.repeat(128)))).toMatchObject({ fault: 'tooLong' })
})

test('speed is that of the last seconds', () => {
  const speed = new Speed()
  expect(speed.measure(0)).toBe(0)
  for (let at = 0; at <= 4000; at += 500) speed.add(500, at)
  expect(Math.round(speed.measure(4000))).toBe(1125)
  expect(speed.measure(20_000)).toBe(0)
})

test('a CRC-32 is written as S3 writes it', async () => {
  expect(crc32(new TextEncoder().encode('123456789'))).toBe('y/Q5Jg==')
  expect(crc32(new Uint8Array())).toBe('AAAAAA==')
  expect(crc32(new Uint8Array(2 ** 20 + 1))).toBe('xqSLKA==')
})

test.each([
  [null, [0, 1, 2, 3]],
  [[[0, 3]], []],
  [
    [
      [1, 1],
      [3, 3],
    ],
    [0, 2],
  ],
])('of a file in 4 chunks of which %j are there, the others are sent', (received, missing) => {
  expect(listMissing({ total_chunks: 4, received })).toEqual(missing)
})

test('a receipt is read from the line of the service', () => {
  const line = 'a b 7 bytes.txt 3 bytes sha256:98ea6e 2026-11-24T20:51:12Z\n'
  expect(readReceipt(line)).toEqual({
    name: 'a b 7 bytes.txt',
    size: 3,
    sha256: '98ea6e',
    time: '2026-11-24T20:51:12Z',
  })
  expect(readReceipt('<!doctype html>')).toBe(null)
})

test('many small files are one request of the size that the service takes', () => {
  const batch = new Batch('/f')
  const passwords = new FolderPasswords()
  const makeMany = (count: number, size: number) =>
    Array.from({ length: count }, (_, index) => new Upload(batch, '/f', `${index}`, new File(['x'.repeat(size)], 'a')))
  const small = makeMany(150, 10)
  expect(countBatch(passwords, small)).toBe(100)
  expect(countBatch(passwords, small.slice(0, 10))).toBe(1)
  expect(countBatch(passwords, makeMany(50, 100_000))).toBe(20)
})
