import { createHash } from 'node:crypto'
import { beforeEach, expect, test, vi } from 'vitest'
import { DropHistory } from '../src/state/drops.svelte'
import { Batch, Upload } from '../src/state/uploads/upload'

const FILE = new File(['x'.repeat(10)], 'a.txt', { lastModified: 7 })
const stored = new Map<string, string>()
vi.stubGlobal('sessionStorage', {
  getItem: (key: string) => stored.get(key) ?? null,
  setItem: (key: string, value: string) => stored.set(key, value),
})

beforeEach(() => {
  stored.clear()
  vi.useFakeTimers()
})

function makeUpload(folder = '/@s/abc') {
  const upload = new Upload(new Batch(folder), folder, 'a.txt', FILE)
  upload.state = 'running'
  return upload
}

test('a file that is half sent is known after the page is loaded again, and a receipt too', async () => {
  const drops = new DropHistory()
  const upload = makeUpload()
  upload.sent = 5
  drops.begin('/@s/abc', FILE, 'u1')
  drops.observe(upload)
  vi.runAllTimers()

  const again = new DropHistory()
  expect(again.listUnfinished('/@s/abc')).toEqual([{ name: 'a.txt', size: 10, sent: 5, modified: 7, id: 'u1' }])
  expect(again.findUpload('/@s/abc', FILE)).toBe('u1')
  expect(again.findUpload('/@s/abc', new File(['y'.repeat(10)], 'a.txt', { lastModified: 8 }))).toBe('')
  expect(again.session).toBe(drops.session)
  upload.state = 'done'
  upload.receipt = { name: 'a (2).txt', size: 10, sha256: 'ab', time: '2026-03-01T00:00:00Z' }
  again.observe(upload)
  expect(again.listUnfinished('/@s/abc')).toEqual([])
  expect(again.listReceipts('/@s/abc').map(({ name }) => name)).toEqual(['a (2).txt'])
})

test('the page computes a checksum that the service did not', async () => {
  vi.useRealTimers()
  const drops = new DropHistory()
  const upload = makeUpload()
  upload.state = 'done'
  upload.receipt = { name: 'a.txt', size: 10, sha256: '', time: '2026-03-01T00:00:00Z' }
  drops.observe(upload)
  expect(drops.isComputing(upload.receipt)).toBe(true)
  await vi.waitUntil(() => drops.listReceipts('/@s/abc')[0]?.sha256)
  await vi.waitUntil(() => upload.receipt && !drops.isComputing(upload.receipt))
  const expected = createHash('sha256').update('x'.repeat(10)).digest('hex')
  expect(drops.listReceipts('/@s/abc').map(({ sha256 }) => sha256)).toEqual([expected])
  expect(stored.get('mangrove.drops')).toContain(expected)
})

test('uploads into the tree and other shares are no part of it', async () => {
  const drops = new DropHistory()
  const upload = makeUpload('/docs')
  upload.sent = 5
  drops.observe(upload)
  expect(drops.listUnfinished('/docs')).toEqual([])
  expect(drops.listUnfinished('/@s/other')).toEqual([])
})
