export interface Decoded {
  text: string
  encoding: Encoding
  hasMark: boolean // whether it began with the mark of its encoding
}
export type Encoding = 'utf-8' | 'utf-16le' | 'utf-16be' | 'gb18030' | 'windows-1252'

const MARKS: readonly (readonly [Encoding, readonly number[]])[] = [
  ['utf-8', [0xef, 0xbb, 0xbf]],
  ['utf-16le', [0xff, 0xfe]],
  ['utf-16be', [0xfe, 0xff]],
]
const GUESSED: readonly Encoding[] = ['utf-8', 'gb18030', 'windows-1252'] // the last one takes any bytes
const SAMPLE_BYTES = 8192 // bytes

/** Bytes as a text, which may end within a letter where they are not all; null for what is no text. */
export function decode(bytes: Uint8Array, isWhole: boolean): Decoded | null {
  const marked = MARKS.find(([, mark]) => mark.every((byte, index) => bytes[index] === byte))?.[0]
  if (marked) return { text: read(bytes, marked, isWhole, false) ?? '', encoding: marked, hasMark: true }
  if (bytes.subarray(0, SAMPLE_BYTES).includes(0)) return null
  for (const encoding of GUESSED) {
    const text = read(bytes, encoding, isWhole, true)
    if (text !== null) return { text, encoding, hasMark: false }
  }
  return null
}

function read(bytes: Uint8Array, encoding: Encoding, isWhole: boolean, fatal: boolean): string | null {
  try {
    return new TextDecoder(encoding, { fatal }).decode(bytes, { stream: !isWhole })
  } catch {
    return null
  }
}

/** A text as it is edited, where all lines end alike, written as the one that was read: its line ends and its mark. */
export function restore(edited: string, original: Decoded): string {
  const text = original.text.includes('\r\n') ? edited.replace(/\r?\n/g, '\r\n') : edited
  return original.hasMark ? `\ufeff${text}` : text
}

/** The text as a field for editing has it. */
export function toEdited(text: string): string {
  return text.replace(/\r\n?/g, '\n')
}
