const STEP = 16 // bytes that are looked up together
const TABLES = makeTables()

/** Return for each byte of a step the table of its effect on the sum: that of the last byte first, all in one array. */
function makeTables(): Int32Array {
  const tables = new Int32Array(256 * STEP)
  for (let byte = 0; byte < 256; byte++) {
    let value = byte
    for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1
    tables[byte] = value
  }
  for (let place = 256; place < tables.length; place++) {
    const value = read(tables, place - 256)
    tables[place] = (value >>> 8) ^ read(tables, value & 0xff)
  }
  return tables
}

/** Return the CRC-32 of bytes, highest byte first, in Base64. */
export function crc32(bytes: Uint8Array): string {
  const value = add(-1, bytes) ^ -1
  return btoa(String.fromCharCode((value >>> 24) & 0xff, (value >>> 16) & 0xff, (value >>> 8) & 0xff, value & 0xff))
}

/** Return the sum with bytes added: words of four bytes, which begin at a multiple of four, and single bytes around them.
 *  Browsers run on machines with little-endian words. */
function add(sum: number, bytes: Uint8Array): number {
  const start = Math.min(bytes.length, -bytes.byteOffset & 3)
  const count = ((bytes.length - start) >> 4) << 2 // of words, in whole steps
  const words = new Int32Array(bytes.buffer, count > 0 ? bytes.byteOffset + start : 0, count)
  let value = addBytes(sum, bytes, 0, start)
  for (let at = 0; at < count; at += 4) {
    value =
      look(12, read(words, at) ^ value) ^
      look(8, read(words, at + 1)) ^
      look(4, read(words, at + 2)) ^
      look(0, read(words, at + 3))
  }
  return addBytes(value, bytes, start + 4 * count, bytes.length)
}

/** Return the effect of the four bytes of a word, of which the last is looked up in table `table`. */
function look(table: number, word: number): number {
  const place = table << 8
  return (
    read(TABLES, place + 768 + (word & 0xff)) ^
    read(TABLES, place + 512 + ((word >>> 8) & 0xff)) ^
    read(TABLES, place + 256 + ((word >>> 16) & 0xff)) ^
    read(TABLES, place + (word >>> 24))
  )
}

function addBytes(sum: number, bytes: Uint8Array, start: number, end: number): number {
  let value = sum
  for (let at = start; at < end; at++) value = (value >>> 8) ^ read(TABLES, (value ^ (bytes[at] as number)) & 0xff)
  return value
}

function read(numbers: Int32Array, at: number): number {
  return numbers[at] as number
}
