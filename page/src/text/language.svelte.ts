import { en, type Texts } from './en'

const KEY = 'mangrove.language'
const RIGHT_TO_LEFT = ['ar', 'fa', 'he', 'ur']
const OTHERS: Record<string, () => Promise<Texts>> = {
  zh: async () => (await import('./zh')).zh,
}

/** Every language the page speaks, under its own name. */
export const LANGUAGES: Record<string, string> = { en: 'English', zh: '中文' }

class Language {
  code = $state('en')
  texts = $state.raw<Texts>(en)

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

  async #use(code: string): Promise<void> {
    try {
      this.texts = (await OTHERS[code]?.()) ?? en
    } catch (thrown) {
      console.warn(thrown)
      return
    }
    this.code = code
    document.documentElement.lang = code
    document.documentElement.dir = RIGHT_TO_LEFT.includes(code) ? 'rtl' : 'ltr'
  }
}

export const language = new Language()

/** The texts in the language in use: `t().files.rename`. */
export function t(): Texts {
  return language.texts
}
