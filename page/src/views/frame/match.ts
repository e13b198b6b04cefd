import type { MenuItem } from '../../parts/menu'

/** The commands whose names have all words, those that begin with the first one first. */
export function matchCommands(items: readonly MenuItem[], words: string): MenuItem[] {
  const parts = fold(words).split(/\s+/).filter(Boolean)
  const [first = ''] = parts
  const matches = items.filter(({ text }) => parts.every((part) => fold(text).includes(part)))
  return matches.toSorted((a, b) => Number(fold(b.text).startsWith(first)) - Number(fold(a.text).startsWith(first)))
}

function fold(text: string): string {
  return text.normalize('NFKD').replace(/\p{M}/gu, '').toLocaleLowerCase()
}
