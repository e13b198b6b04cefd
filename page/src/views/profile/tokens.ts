import type { TokenMode, TokenProtocol, TokenRow } from '../../api/tokens'
import { formatName } from '../../text/format'
import type { Language } from '../../text/language.svelte'

/** The choices of an expiry: days from now, 0 for none. */
export const EXPIRY_DAYS = [7, 30, 90, 365, 0] as const
export const DEFAULT_EXPIRY_DAYS = 90

/** What a token may do, where and until when, in words. */
export function formatScope(
  { t, code, formatDate }: Language,
  { folder, mode, protocols, expires, administration }: TokenRow,
): string {
  const text = t().profile.tokens
  const names = protocols.map((protocol) => text.protocolNames[protocol as TokenProtocol] ?? protocol)
  const parts = [
    administration ? text.administrationShort : text.modes[mode as TokenMode],
    text.inFolder(formatName(folder)),
    new Intl.ListFormat(code).format(names),
    expires === null
      ? text.endless
      : isPast(expires)
        ? text.ended(formatDate(expires))
        : text.until(formatDate(expires)),
  ]
  return parts.join(' · ')
}

function isPast(time: string): boolean {
  return new Date(time).getTime() <= Date.now()
}

/** The time that is so many days from now, '' for 0. */
export function formatExpiry(days: number, now = new Date()): string {
  return days > 0 ? new Date(now.getTime() + days * 24 * 3_600_000).toISOString() : ''
}
