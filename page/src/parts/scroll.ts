/** Scrolling of a list of any length in an element of bounded height: browsers clip elements above some 16 million px. */
export const MAX_TRACK_PIXELS = 8_000_000

export interface Sizes {
  count: number
  rowHeight: number
  viewHeight: number
}

/** The height of the element that is scrolled. */
export function trackHeight({ count, rowHeight }: Sizes): number {
  return Math.min(count * rowHeight, MAX_TRACK_PIXELS)
}

/** px of the list for one px of the track; 1 unless the list is longer than the track. */
export function scale(sizes: Sizes): number {
  const track = trackHeight(sizes) - sizes.viewHeight
  const list = sizes.count * sizes.rowHeight - sizes.viewHeight
  return track > 0 && list > track ? list / track : 1
}

/**
 * Return the position of the list after the track was scrolled from `before` to `top`. A step of less than a view moves the list
 * as far as the track, so that a wheel feels the same in any list; a longer one (the bar was dragged) goes by the scale.
 */
export function followTrack(sizes: Sizes, offset: number, before: number, top: number): number {
  const factor = scale(sizes)
  if (factor === 1) return top
  const end = trackHeight(sizes) - sizes.viewHeight
  if (top <= 0 || top >= end - 1) return clampOffset(sizes, top * factor)
  const step = top - before
  return clampOffset(sizes, Math.abs(step) < sizes.viewHeight ? offset + step : top * factor)
}

export function clampOffset({ count, rowHeight, viewHeight }: Sizes, offset: number): number {
  return Math.max(0, Math.min(offset, count * rowHeight - viewHeight))
}

/** The rows in view, and some on either side; [0, -1] for none. */
export function findRows(sizes: Sizes, offset: number, margin: number): [first: number, last: number] {
  const { count, rowHeight, viewHeight } = sizes
  const first = Math.max(0, Math.floor(offset / rowHeight) - margin)
  const last = Math.min(count - 1, Math.ceil((offset + viewHeight) / rowHeight) - 1 + margin)
  return [Math.min(first, Math.max(0, last)), last]
}

/** The offset that brings a row into view with the least movement. */
export function reveal(sizes: Sizes, offset: number, row: number): number {
  const top = row * sizes.rowHeight
  if (top < offset) return top
  return Math.max(offset, top + sizes.rowHeight - sizes.viewHeight)
}
