import { createContext } from 'svelte'
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
  readonly favourites = new SavedEntries('favourites', MAX_FAVOURITES)
  readonly recent = new SavedEntries('recent', MAX_RECENT_FILES)
  readonly storages = new RootFolders()
  readonly commands = new Commands()
  readonly undo = new UndoStack()
  readonly mover = new Mover(this.undo)
}

export const [useFrame, provideFrame] = createContext<FrameStores>()
