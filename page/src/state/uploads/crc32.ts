const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1
  return value
})
const BLOCK = 2 ** 20 // bytes after which others have their turn

/** The CRC-32 of bytes, highest byte first, in Base64. */
export async function crc32(bytes: Uint8Array): Promise<string> {
  let value = 0xffffffff
  for (let start = 0; start < bytes.length; start += BLOCK) {
    for (const byte of bytes.subarray(start, start + BLOCK)) value = (value >>> 8) ^ (TABLE[(value ^ byte) & 0xff] ?? 0)
    if (bytes.length > BLOCK) await new Promise((resolve) => setTimeout(resolve))
  }
  value ^= 0xffffffff
  return btoa(String.fromCharCode((value >>> 24) & 0xff, (value >>> 16) & 0xff, (value >>> 8) & 0xff, value & 0xff))
}
