import { createContext } from 'svelte'
import { Appearance } from './appearance.svelte'
import { Arrival } from './arrival.svelte'
import { Drafts } from './drafts'
import { FirstSteps } from './firstSteps.svelte'
import { Neighbours } from './neighbours'
import { Panels } from './panels.svelte'
import { CurrentPlace } from './place.svelte'
import { Playback } from './playback'
import { FolderLayout } from './viewkind.svelte'

/** The stores of the page: made once, in main.ts, and handed down to the views. */
export interface Stores {
  appearance: Appearance
  arrival: Arrival
  drafts: Drafts
  firstSteps: FirstSteps
  folderLayout: FolderLayout
  neighbours: Neighbours
  panels: Panels
  place: CurrentPlace
  playback: Playback
}

export function createStores(): Stores {
  const folderLayout = new FolderLayout()
  return {
    appearance: new Appearance(),
    arrival: new Arrival(),
    drafts: new Drafts(),
    firstSteps: new FirstSteps(),
    folderLayout,
    neighbours: new Neighbours(folderLayout),
    panels: new Panels(),
    place: new CurrentPlace(),
    playback: new Playback(),
  }
}

export const [useStores, provideStores] = createContext<Stores>()
