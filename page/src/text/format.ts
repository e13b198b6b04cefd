import { language } from './language.svelte'

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']

/** A name as it is shown: what would turn the letters around it, and so hide an extension, is made visible. */
export function formatName(name: string): string {
  return name.replace(/[\u202a-\u202e\u2066-\u2069]/g, '\ufffd')
}

export function formatCount(count: number): string {
  return new Intl.NumberFormat(language.code).format(count)
}

export function formatSize(bytes: number): string {
  let unit = 0
  let size = bytes
  while (size >= 1024 && unit < UNITS.length - 1) {
    size /= 1024
    unit++
  }
  const digits = unit === 0 || size >= 100 ? 0 : 1
  return `${new Intl.NumberFormat(language.code, { maximumFractionDigits: digits }).format(size)} ${UNITS[unit]}`
}

const dates = new Map<string, Intl.DateTimeFormat>() // making one takes longer than a row may

/** A moment of the interface; '' for the year 1, which stands for unknown. */
export function formatDate(moment: string): string {
  if (moment.startsWith('0001-')) return ''
  let format = dates.get(language.code)
  if (!format) {
    format = new Intl.DateTimeFormat(language.code, { dateStyle: 'medium', timeStyle: 'short' })
    dates.set(language.code, format)
  }
  return format.format(new Date(moment))
}
