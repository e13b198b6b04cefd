const MAX_NAME_BYTES = 255
const encoder = new TextEncoder()

/** The name with a number before its ending: `a.txt` is `a (2).txt`. No longer than a name can be. */
export function addNumber(name: string, number: number): string {
  const dot = name.lastIndexOf('.')
  const stem = dot > 0 ? name.slice(0, dot) : name
  const tail = ` (${number})${dot > 0 ? name.slice(dot) : ''}`
  return cut(stem, MAX_NAME_BYTES - encoder.encode(tail).length) + tail
}

/** As much of the text as fits, without half a letter. */
function cut(text: string, bytes: number): string {
  const letters = [...text]
  while (letters.length > 0 && encoder.encode(letters.join('')).length > bytes) letters.pop()
  return letters.join('')
}
