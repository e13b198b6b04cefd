import { MediaQuery } from 'svelte/reactivity'

export const THEMES = ['system', 'light', 'dark'] as const
export const DENSITIES = ['comfortable', 'compact'] as const
export type Theme = (typeof THEMES)[number]
export type Density = (typeof DENSITIES)[number]

const THEME_KEY = 'mangrove.theme'
const DENSITY_KEY = 'mangrove.density'

/** The theme and density of the page on this device. */
export class Appearance {
  #theme = $state<Theme>(read(THEME_KEY, THEMES))
  #density = $state<Density>(read(DENSITY_KEY, DENSITIES))
  #systemDark = new MediaQuery('prefers-color-scheme: dark')

  /** True if the page is dark, by choice or by the system. */
  get isDark(): boolean {
    return this.#theme === 'dark' || (this.#theme === 'system' && this.#systemDark.current)
  }

  get theme(): Theme {
    return this.#theme
  }

  get density(): Density {
    return this.#density
  }

  chooseTheme(theme: Theme): void {
    this.#theme = theme
    localStorage.setItem(THEME_KEY, theme)
    this.apply()
  }

  chooseDensity(density: Density): void {
    this.#density = density
    localStorage.setItem(DENSITY_KEY, density)
    this.apply()
  }

  /** Show what is chosen. */
  apply(): void {
    const { dataset } = document.documentElement
    dataset.theme = this.#theme
    dataset.density = this.#density
  }
}

function read<T extends string>(key: string, values: readonly [T, ...T[]]): T {
  const stored = localStorage.getItem(key)
  return values.find((value) => value === stored) ?? values[0]
}
