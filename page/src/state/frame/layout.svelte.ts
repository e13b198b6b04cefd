import { readStored, writeStored } from './stored'

const PLACES_KEY = 'mangrove.places'
const DETAILS_KEY = 'mangrove.details'

/** The parts of the frame that are shown on this device. */
export class Layout {
  #hasPlaces = $state(readStored(PLACES_KEY, isBoolean) ?? true)
  #hasDetails = $state(readStored(DETAILS_KEY, isBoolean) ?? false)
  /** True if the places lie over the view, where there is no room beside it. */
  isDrawerOpen = $state(false)
  dialog = $state<'palette' | 'keys' | null>(null)

  get hasPlaces(): boolean {
    return this.#hasPlaces
  }

  get hasDetails(): boolean {
    return this.#hasDetails
  }

  togglePlaces(): void {
    this.#hasPlaces = !this.#hasPlaces
    writeStored(PLACES_KEY, this.#hasPlaces)
  }

  toggleDetails(): void {
    this.#hasDetails = !this.#hasDetails
    writeStored(DETAILS_KEY, this.#hasDetails)
  }
}

function isBoolean(value: unknown): value is boolean {
  return typeof value === 'boolean'
}
