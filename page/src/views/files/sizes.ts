import type { Density } from '../../state/appearance.svelte'
import type { ViewKind } from '../../state/viewkind.svelte'

const HEIGHTS = {
  list: { comfortable: 44, compact: 36, narrow: 60 }, // px; a phone shows two lines
  compact: { comfortable: 32, compact: 28, narrow: 44 },
  grid: { comfortable: 192, compact: 176, narrow: 168 },
} as const
const TILE = { wide: 156, narrow: 112 } // px that a tile has at least

export function findHeight(kind: ViewKind, isNarrow: boolean, density: Density): number {
  return HEIGHTS[kind][isNarrow ? 'narrow' : density]
}

/** The number of tiles that stand beside each other. */
export function countTiles(width: number, isNarrow: boolean): number {
  return Math.max(1, Math.floor(width / TILE[isNarrow ? 'narrow' : 'wide']))
}
