import { parent } from '../../api/paths'
import type { Stores } from '../stores'
import type { Upload } from './upload'

const EVERY = 1500 // ms after which the folder in view is listed again

/** Tells which folders uploads have changed, some time after and all at once: one by one would list them without end. */
export class Telling {
  #changed = new Set<string>()
  #stored = new Set<string>()
  #waiting: ReturnType<typeof setTimeout> | undefined

  constructor(private stores: Pick<Stores, 'folderChanges' | 'tasks'>) {}

  add({ batch, folder, state }: Upload): void {
    if (state === 'storing') this.#stored.add(batch.folder)
    for (let path = folder; path.length > batch.folder.length; path = parent(path)) this.#changed.add(path)
    this.#changed.add(batch.folder)
    this.#waiting ??= setTimeout(() => this.#tell(), EVERY)
  }

  #tell(): void {
    this.#waiting = undefined
    for (const path of this.#changed) this.stores.folderChanges.tell(path)
    for (const path of this.#stored) this.stores.tasks.watch('upload', path)
    this.#changed.clear()
    this.#stored.clear()
  }
}
