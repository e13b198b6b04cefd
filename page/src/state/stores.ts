import { createContext } from 'svelte'
import { ApiClient } from '../api/client'
import { Language } from '../text/language.svelte'
import { Appearance } from './appearance.svelte'
import { Archives } from './archives.svelte'
import { Arrival } from './arrival.svelte'
import { Drafts } from './drafts'
import { DropHistory } from './drops.svelte'
import { Events } from './events.svelte'
import { FirstSteps } from './firstSteps.svelte'
import { FolderChanges } from './folderChanges'
import { KnownFiles } from './knownFiles'
import { LastPlaces } from './lastPlaces'
import { Neighbours } from './neighbours'
import { Panels } from './panels.svelte'
import { FolderPasswords } from './passwords'
import { CurrentPlace } from './place.svelte'
import { Playback } from './playback'
import { Router } from './router.svelte'
import { Session } from './session.svelte'
import { Site } from './site.svelte'
import { Tasks } from './tasks.svelte'
import { Toasts } from './toasts.svelte'
import { UploadsLoader } from './uploads/loader.svelte'
import { FolderLayout } from './viewkind.svelte'

/** The stores of the page: made once, in main.ts, and handed down to the views. */
export interface Stores {
  api: ApiClient
  appearance: Appearance
  archives: Archives
  arrival: Arrival
  drafts: Drafts
  drops: DropHistory
  events: Events
  firstSteps: FirstSteps
  folderChanges: FolderChanges
  folderLayout: FolderLayout
  knownFiles: KnownFiles
  language: Language
  lastPlaces: LastPlaces
  neighbours: Neighbours
  panels: Panels
  passwords: FolderPasswords
  place: CurrentPlace
  playback: Playback
  router: Router
  session: Session
  site: Site
  tasks: Tasks
  toasts: Toasts
  uploadsLoader: UploadsLoader
}

export function createStores(): Stores {
  const api = new ApiClient()
  const passwords = new FolderPasswords()
  const playback = new Playback()
  const session = new Session(api, () => {
    passwords.clear()
    playback.clear()
  })
  const basic = {
    api,
    drops: new DropHistory(),
    folderChanges: new FolderChanges(),
    folderLayout: new FolderLayout(),
    knownFiles: new KnownFiles(),
    language: new Language(),
    passwords,
    session,
    site: new Site(api),
    toasts: new Toasts(),
  }
  const events = new Events(basic)
  const tasks = new Tasks({ ...basic, events })
  return {
    ...basic,
    appearance: new Appearance(),
    archives: new Archives(api),
    arrival: new Arrival(),
    drafts: new Drafts(session),
    events,
    firstSteps: new FirstSteps(),
    lastPlaces: new LastPlaces(),
    neighbours: new Neighbours(basic),
    panels: new Panels(),
    place: new CurrentPlace(),
    playback,
    router: new Router(),
    tasks,
    uploadsLoader: new UploadsLoader({ ...basic, tasks }),
  }
}

export const [useStores, provideStores] = createContext<Stores>()
