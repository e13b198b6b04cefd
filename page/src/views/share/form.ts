import type { ShareDraft, ShareMode } from '../../api/shares'

/** The choices for the end of a share; `date` is a day that is typed in. */
export const ENDS = ['day', 'week', 'month', 'date', 'never'] as const
export type End = (typeof ENDS)[number]

const DAYS: Partial<Record<End, number>> = { day: 1, week: 7, month: 30 }
const MEBIBYTE = 2 ** 20
const DAY_MS = 24 * 3600 * 1000
const ID = /^[\p{Script=Han}A-Za-z0-9_-]{1,64}$/u
const PASSWORD_LETTERS = 'abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789' // without those that look alike
const PASSWORD_LENGTH = 12

/** The fields of the form as they are typed. */
export interface ShareFields {
  id: string
  end: End
  date: string // of an input of type datetime-local
  password: string
  visits: string
  mode: ShareMode
  remark: string
  readme: string
  maxFileSize: string // MiB
  maxTotalSize: string // MiB
  maxFiles: string
  extensions: string
}

export type ShareFault = 'date' | 'id' | 'number'

/** The fields of a share. A new one ends after a week, unless that is changed. */
export function fillFields(share: ShareDraft, isNew: boolean): ShareFields {
  return {
    id: share.id,
    end: share.expires === null ? (isNew ? 'week' : 'never') : 'date',
    date: share.expires === null ? '' : formatLocal(new Date(share.expires)),
    password: share.password,
    visits: formatLimit(share.maxVisits),
    mode: share.mode,
    remark: share.remark,
    readme: share.readme,
    maxFileSize: formatLimit(share.maxFileBytes / MEBIBYTE),
    maxTotalSize: formatLimit(share.maxTotalBytes / MEBIBYTE),
    maxFiles: formatLimit(share.maxFiles),
    extensions: share.extensions,
  }
}

/** The faults of the fields, by their names. `now` in milliseconds. */
export function findFaults(fields: ShareFields, now: number): Partial<Record<keyof ShareFields, ShareFault>> {
  const faults: Partial<Record<keyof ShareFields, ShareFault>> = {}
  if (fields.id !== '' && !ID.test(fields.id)) faults.id = 'id'
  if (fields.end === 'date' && !(new Date(fields.date).getTime() > now)) faults.date = 'date'
  for (const name of ['visits', 'maxFileSize', 'maxTotalSize', 'maxFiles'] as const) {
    if (!/^\d{0,9}$/.test(fields[name].trim())) faults[name] = 'number'
  }
  return faults
}

/** The share with what was typed; `now` in milliseconds is when a number of days begins. */
export function readFields(share: ShareDraft, fields: ShareFields, now: number): ShareDraft {
  return {
    ...share,
    id: fields.id,
    expires: findExpiry(fields, now),
    password: fields.password,
    maxVisits: Number(fields.visits),
    mode: fields.mode,
    remark: fields.remark.trim(),
    readme: fields.readme,
    maxFileBytes: Number(fields.maxFileSize) * MEBIBYTE,
    maxTotalBytes: Number(fields.maxTotalSize) * MEBIBYTE,
    maxFiles: Number(fields.maxFiles),
    extensions: fields.extensions.trim(),
  }
}

function findExpiry({ end, date }: ShareFields, now: number): string | null {
  if (end === 'never') return null
  const days = DAYS[end]
  return (days === undefined ? new Date(date) : new Date(now + days * DAY_MS)).toISOString()
}

function formatLimit(limit: number): string {
  return limit > 0 ? String(limit) : ''
}

/** A moment in the time of this device, as a field of type datetime-local has it. */
export function formatLocal(moment: Date): string {
  const local = new Date(moment.getTime() - moment.getTimezoneOffset() * 60_000)
  return local.toISOString().slice(0, 16)
}

/** A password that is not guessed, of letters that can be read out. */
export function makePassword(): string {
  const letters: string[] = []
  const numbers = new Uint8Array(1)
  while (letters.length < PASSWORD_LENGTH) {
    crypto.getRandomValues(numbers)
    const letter = PASSWORD_LETTERS[(numbers[0] ?? 255) & 63] // none for some of 64: each has the same chance
    if (letter !== undefined) letters.push(letter)
  }
  return letters.join('')
}
