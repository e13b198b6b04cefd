const PAUSE = 800 // ms after which a key begins a new word

/** The recently typed text, to jump to the name that begins with it. */
export class TypeAhead {
  #word = ''
  #last = Number.NEGATIVE_INFINITY

  /** True if a word is being typed: then a space belongs to it. */
  isTyping(now: number): boolean {
    return now - this.#last < PAUSE
  }

  /** The row to jump to, or -1. `names`: those that are known, in ascending order of their rows. */
  type(letter: string, focus: number, names: readonly (readonly [row: number, name: string])[], now: number): number {
    this.#word = this.isTyping(now) ? this.#word + letter : letter
    this.#last = now
    const isRepeated = [...this.#word].every((item) => item === letter) // the same key again and again: one name further
    const word = fold(isRepeated ? letter : this.#word)
    const start = Math.max(0, isRepeated ? focus + 1 : focus)
    const fits = ([, name]: readonly [number, string]) => fold(name.slice(0, 2 * word.length)).startsWith(word)
    const match = names.find((item) => item[0] >= start && fits(item)) ?? names.find(fits)
    return match ? match[0] : -1
  }
}

function fold(text: string): string {
  return text.normalize('NFKD').replace(/\p{M}/gu, '').toLocaleLowerCase()
}
