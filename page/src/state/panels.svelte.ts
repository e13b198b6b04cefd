export type PanelName = 'search'

/** The panel that lies over the view, opened by a button of the header; at most one. */
export class Panels {
  open = $state<PanelName | null>(null)
  #opener: HTMLElement | null = null

  toggle(name: PanelName): void {
    if (this.open === name) {
      this.close()
      return
    }
    if (!this.open && document.activeElement instanceof HTMLElement) this.#opener = document.activeElement
    this.open = name
  }

  /** The focus goes back to where it was before, unless it is elsewhere by now (`keepFocus`). */
  close(keepFocus = false): void {
    this.open = null
    if (!keepFocus) this.#opener?.focus()
    this.#opener = null
  }
}
