import { serve } from './protocol'

const MIN_PICTURE_BYTES = 10_000

/** The largest JPEG picture that a camera stored beside the data of its sensor. */
serve(({ bytes }) => {
  const data = new Uint8Array(bytes)
  let [start, end] = [0, 0]
  for (let at = data.indexOf(0xff); at >= 0; at = data.indexOf(0xff, at + 1)) {
    if (data[at + 1] !== 0xd8 || data[at + 2] !== 0xff) continue
    const stop = findEnd(data, at)
    if (stop - at > end - start) [start, end] = [at, stop]
    if (stop > at) at = stop - 1
  }
  if (end - start < MIN_PICTURE_BYTES) throw new Error('There is no picture in this file.')
  return { kind: 'picture', picture: new Blob([data.slice(start, end)], { type: 'image/jpeg' }) }
})

/** Return the end of the picture that begins at `start`; 0 if it is none that browsers show. */
function findEnd(data: Uint8Array, start: number): number {
  let at = start + 2
  while (at + 4 <= data.length && data[at] === 0xff) {
    const marker = data[at + 1] ?? 0
    const isLossless = marker === 0xc3 // the data of the sensor
    if (isLossless) return 0
    if (marker === 0xd9) return at + 2
    at += 2 + (((data[at + 2] ?? 0) << 8) | (data[at + 3] ?? 0))
    if (marker === 0xda) at = skipScan(data, at)
  }
  return 0
}

/** Return the position of the next marker behind the compressed data. */
function skipScan(data: Uint8Array, from: number): number {
  for (let at = data.indexOf(0xff, from); at >= 0; at = data.indexOf(0xff, at + 1)) {
    const next = data[at + 1] ?? 0
    const isData = next === 0 || (next >= 0xd0 && next <= 0xd7)
    if (!isData) return at
  }
  return data.length
}
