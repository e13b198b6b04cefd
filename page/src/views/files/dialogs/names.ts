import { formatName } from '../../../text/format'
import type { Language } from '../../../text/language.svelte'

/** Some names as part of a sentence: “a”, “b” and 3 more. */
export function joinNames({ t, code, formatCount }: Language, names: readonly string[], most = 3): string {
  const shown = names.slice(0, most).map((name) => t().changes.quoted(formatName(name)))
  if (names.length > shown.length) shown.push(t().changes.more(formatCount(names.length - shown.length)))
  return new Intl.ListFormat(code, { type: 'conjunction' }).format(shown)
}
