export type Strength = 'weak' | 'fair' | 'good' | 'strong'

const COMMON = /pass(wor[dt])?|qwert[yz]?|admin|welcome|letmein|iloveyou|monkey|dragon|mangrove|abc123|secret/g
const MIN_LENGTH = 8 // characters; what is shorter is tried through in any case
const ALPHABETS: readonly [RegExp, number][] = [
  [/[a-z]/, 26],
  [/[A-Z]/, 26],
  [/[0-9]/, 10],
  [/[ -/:-@[-`{-~]/, 33],
  [/[^ -~]/, 100],
]
const BITS: readonly [Strength, number][] = [
  ['strong', 80],
  ['good', 60],
  ['fair', 40],
]

/** Estimate the strength of a password by its length and kinds of characters, without a dictionary. */
export function estimateStrength(password: string, known: readonly string[] = []): Strength {
  if ([...password].length < MIN_LENGTH) return 'weak'
  const bits =
    countFree(password, known) * Math.log2(sum(ALPHABETS.map(([kind, size]) => (kind.test(password) ? size : 0))))
  return BITS.find(([, least]) => bits >= least)?.[0] ?? 'weak'
}

/** Count the characters that do not follow from others: common words, names, repetitions and rows count little. */
function countFree(password: string, known: readonly string[]): number {
  let text = password.toLowerCase().replace(COMMON, '\0')
  for (const word of known) if (word.length > 2) text = text.replaceAll(word.toLowerCase(), '\0')
  const codes = [...text].map((letter) => letter.codePointAt(0) ?? 0)
  return sum(codes.map((code, index) => (index > 0 && Math.abs(code - (codes[index - 1] ?? 0)) <= 1 ? 0.25 : 1)))
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, count) => total + count, 0)
}
