import type { MenuItem } from '../../parts/menu'

/** The actions of the view that is shown, for the command palette. */
export class Commands {
  #read: (() => readonly MenuItem[]) | null = null

  /** Offer the actions of a view. Returns the function that withdraws them. */
  offer(read: () => readonly MenuItem[]): () => void {
    this.#read = read
    return () => {
      if (this.#read === read) this.#read = null
    }
  }

  list(): readonly MenuItem[] {
    return this.#read?.() ?? []
  }
}
