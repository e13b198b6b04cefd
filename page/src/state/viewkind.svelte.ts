import type { Order } from './folder.svelte'

const KEY = 'mangrove.view'
const ORDER_KEY = 'mangrove.order'
export const VIEW_KINDS = ['list', 'compact', 'grid'] as const
export type ViewKind = (typeof VIEW_KINDS)[number]

const BY_NAME: Order = { column: 'name', descending: false }

/** The layout and order of folders on this device. */
export class FolderLayout {
  #kind = $state<ViewKind>(VIEW_KINDS.find((kind) => kind === localStorage.getItem(KEY)) ?? 'list')
  #order = $state.raw<Order | null>(readOrder())

  get kind(): ViewKind {
    return this.#kind
  }

  /** Null: as the storage lists them. */
  get order(): Order | null {
    return this.#order
  }

  choose(kind: ViewKind): void {
    this.#kind = kind
    localStorage.setItem(KEY, kind)
  }

  chooseOrder(order: Order | null): void {
    this.#order = order
    localStorage.setItem(ORDER_KEY, JSON.stringify(order))
  }
}

function readOrder(): Order | null {
  try {
    const order = JSON.parse(localStorage.getItem(ORDER_KEY) ?? 'false')
    if (order === null) return null
    if (['name', 'size', 'modified'].includes(order.column)) {
      return { column: order.column, descending: order.descending === true }
    }
  } catch {
    // as if none was chosen
  }
  return BY_NAME
}
