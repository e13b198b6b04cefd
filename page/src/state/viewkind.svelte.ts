const KEY = 'mangrove.view'
export const VIEW_KINDS = ['list', 'compact', 'grid'] as const
export type ViewKind = (typeof VIEW_KINDS)[number]

/** The layout of folders on this device. */
class View {
  #kind = $state<ViewKind>(VIEW_KINDS.find((kind) => kind === localStorage.getItem(KEY)) ?? 'list')

  get kind(): ViewKind {
    return this.#kind
  }

  choose(kind: ViewKind): void {
    this.#kind = kind
    localStorage.setItem(KEY, kind)
  }
}

export const view = new View()
