import { baseName } from '../../api/paths'
import { formatShareAddress, makeSharePath } from '../../api/sharepaths'
import type { Share, ShareDraft, ShareInfo } from '../../api/shares'
import { formatName } from '../../text/format'
import type { Language } from '../../text/language.svelte'

export type ShareState = 'active' | 'disabled' | 'expired' | 'used'

/** The state of a share; `now` in milliseconds. */
export function findState({ disabled, expires, maxVisits, visits }: Share, now: number): ShareState {
  if (disabled) return 'disabled'
  if (expires !== null && new Date(expires).getTime() <= now) return 'expired'
  return maxVisits > 0 && visits >= maxVisits ? 'used' : 'active'
}

/** The name of what is shared. */
export function nameShare({ t, formatCount }: Language, { files }: Pick<ShareDraft, 'files'>): string {
  const [first] = files
  if (files.length !== 1 || first === undefined) return t().share.manyItems(formatCount(files.length))
  return formatName(baseName(first)) || t().files.home
}

/** The name of what is shared, for a visitor. */
export function nameInfo({ t }: Language, { title }: ShareInfo): string {
  return title ? formatName(title) : t().share.several
}

/** The address that is given away. The password is no part of it. */
export function makeLink(id: string): string {
  return location.origin + formatShareAddress(makeSharePath(id))
}

/** To whom a share opens what, and until when, as a sentence. */
export function describeShare(language: Language, share: ShareDraft): string {
  const { t, formatCount, formatDate } = language
  const text = t().share.says
  return [
    text[share.mode](t().changes.quoted(nameShare(language, share))),
    share.password && text.password,
    share.maxVisits > 0 && text.visits(share.maxVisits, formatCount(share.maxVisits)),
    share.expires === null ? text.forever : text.until(formatDate(share.expires)),
  ]
    .filter(Boolean)
    .join(t().share.says.joint)
}
