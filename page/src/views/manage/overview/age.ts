import type { Language } from '../../../text/language.svelte'

const UNITS = [
  [86_400, 'day'],
  [3600, 'hour'],
  [60, 'minute'],
  [1, 'second'],
] as const

/** An age in its largest unit: "3 min". */
export function formatAge({ code }: Language, seconds: number): string {
  const [size, unit] = UNITS.find(([length]) => seconds >= length) ?? UNITS[3]
  const format = new Intl.NumberFormat(code, { style: 'unit', unit, unitDisplay: 'short' })
  return format.format(Math.floor(seconds / size))
}
