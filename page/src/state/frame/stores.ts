import { createContext } from 'svelte'
import type { Stores } from '../stores'
import { Commands } from './commands.svelte'
import { Layout } from './layout.svelte'
import { Mover } from './mover.svelte'
import { SavedEntries } from './savedEntries.svelte'
import { RootFolders } from './storages.svelte'
import { UndoStack } from './undo'

const MAX_FAVOURITES = 50
const MAX_RECENT_FILES = 8

/** The stores of the frame: made once, and handed down to the views. */
export class FrameStores {
  readonly layout = new Layout()
  readonly favourites: SavedEntries
  readonly recent: SavedEntries
  readonly storages: RootFolders
  readonly commands = new Commands()
  readonly undo = new UndoStack()
  readonly mover: Mover

  constructor(stores: Stores) {
    this.favourites = new SavedEntries(stores.session, 'favourites', MAX_FAVOURITES)
    this.recent = new SavedEntries(stores.session, 'recent', MAX_RECENT_FILES)
    this.storages = new RootFolders(stores)
    this.mover = new Mover(stores, this.undo)
  }
}

export const [useFrame, provideFrame] = createContext<FrameStores>()
