import { en, type FirstTexts, type Texts } from './en'
import type { LateTexts } from './late.en'

const KEY = 'mangrove.language'
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']
const RIGHT_TO_LEFT = ['ar', 'fa', 'he', 'ur']
const FIRST: Record<string, () => Promise<FirstTexts>> = {
  en: async () => en,
  zh: async () => (await import('./zh')).zh,
}
const LATE: Record<string, () => Promise<LateTexts>> = {
  en: async () => (await import('./late.en')).late,
  zh: async () => (await import('./late.zh')).late,
}

/** Every language the page speaks, under its own name. */
export const LANGUAGES: Record<string, string> = { en: 'English', zh: '中文' }

/** The language in use: its texts, and numbers and dates as it writes them. */
export class Language {
  code = $state('en')
  #first = $state.raw<FirstTexts>(en)
  #late = $state.raw<LateTexts | null>(null) // in the same language; null until a view needs them
  #dates = $derived(new Intl.DateTimeFormat(this.code, { dateStyle: 'medium', timeStyle: 'short' })) // making one takes longer than a row may
  texts = $derived({ ...this.#first, ...this.#late } as Texts)

  /** The texts in the language in use: `t().files.rename`. */
  readonly t = (): Texts => this.texts

  readonly formatCount = (count: number): string => new Intl.NumberFormat(this.code).format(count)

  readonly formatSize = (bytes: number): string => {
    let unit = 0
    let size = bytes
    while (size >= 1024 && unit < UNITS.length - 1) {
      size /= 1024
      unit++
    }
    const maximumFractionDigits = unit === 0 || size >= 100 ? 0 : 1
    return `${new Intl.NumberFormat(this.code, { maximumFractionDigits }).format(size)} ${UNITS[unit]}`
  }

  /** A moment of the interface; '' for the year 1, which stands for unknown. */
  readonly formatDate = (moment: string): string =>
    moment.startsWith('0001-') ? '' : this.#dates.format(new Date(moment))

  /** The language chosen before, else the first of the browser's that is here. */
  async start(): Promise<void> {
    const tags = [localStorage.getItem(KEY) ?? '', ...navigator.languages]
    const codes = tags.map((tag) => tag.split('-')[0] ?? '')
    await this.#use(codes.find((code) => code in LANGUAGES) ?? 'en')
  }

  /** Speak another language from now on; without the service the present one stays. */
  async choose(code: string): Promise<void> {
    localStorage.setItem(KEY, code)
    await this.#use(code)
  }

  /** Load a view together with its late texts. */
  async withLateTexts<View>(view: Promise<View>): Promise<View> {
    const [loaded] = await Promise.all([view, this.#loadLate()])
    return loaded
  }

  async #loadLate(): Promise<void> {
    while (!this.#late) {
      const { code } = this
      const late = (await LATE[code]?.()) ?? null
      if (code === this.code) this.#late = late
    }
  }

  async #use(code: string): Promise<void> {
    try {
      const first = (await FIRST[code]?.()) ?? en
      const late = this.#late && (await LATE[code]?.())
      this.#first = first
      this.#late = late ?? null
    } catch (thrown) {
      console.warn(thrown)
      return
    }
    this.code = code
    document.documentElement.lang = code
    document.documentElement.dir = RIGHT_TO_LEFT.includes(code) ? 'rtl' : 'ltr'
  }
}
