import type { ViewKind } from '../../state/viewkind.svelte'

const HEIGHTS = {
  list: { wide: 40, narrow: 56 }, // px; a phone shows two lines
  compact: { wide: 28, narrow: 44 },
  grid: { wide: 184, narrow: 168 },
} as const
const TILE = { wide: 152, narrow: 112 } // px that a tile has at least

export function findHeight(kind: ViewKind, isNarrow: boolean): number {
  return HEIGHTS[kind][isNarrow ? 'narrow' : 'wide']
}

/** The number of tiles stand beside each other. */
export function countTiles(width: number, isNarrow: boolean): number {
  return Math.max(1, Math.floor(width / TILE[isNarrow ? 'narrow' : 'wide']))
}
