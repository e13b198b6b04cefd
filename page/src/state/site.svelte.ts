import type { ApiClient } from '../api/client'
import { asProblem, type Problem } from '../api/problem'

/** The public settings: what the administrators made of the site. All are texts; an absent one is ''. */
export class Site {
  problem = $state.raw<Problem | null>(null) // why they are not known
  isLoaded = $state(false)
  #settings = $state.raw<Record<string, string>>({})

  constructor(private readonly api: ApiClient) {}

  get(key: string): string {
    return this.#settings[key] ?? ''
  }

  isOn(key: string): boolean {
    return ['true', '1'].includes(this.get(key))
  }

  get canSearch(): boolean {
    return !['', 'none'].includes(this.get('search_index'))
  }

  /** The logo for a light page and the one for a dark page, '' for none. */
  get logos(): { light: string; dark: string } {
    const lines = this.get('logo')
      .split('\n')
      .map((line) => line.trim())
      .filter(Boolean)
    return { light: lines[0] ?? '', dark: lines.at(-1) ?? '' }
  }

  async load(): Promise<void> {
    this.problem = null
    try {
      this.#settings = await this.api.call('get', '/api/public/settings', { token: '' })
      this.isLoaded = true
      const color = this.get('main_color')
      if (CSS.supports('color', color)) document.documentElement.style.setProperty('--main-color', color)
    } catch (thrown) {
      this.problem = asProblem(thrown)
    }
  }
}
