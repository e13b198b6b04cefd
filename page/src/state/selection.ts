/** The selected rows and the position of the keyboard, as values. Rows are numbers from 0. */
export interface Selection {
  /** Selected rows as disjoint ranges in ascending order, both ends included: a million rows are one of them. */
  readonly ranges: readonly Range[]
  /** The row that keys act on; -1 before the first. */
  readonly focus: number
  /** The start of a range that is extended by shift. */
  readonly anchor: number
}

export type Range = readonly [first: number, last: number]

export interface Modifiers {
  shift?: boolean
  ctrl?: boolean
}

export const NOTHING: Selection = { ranges: [], focus: -1, anchor: -1 }

/** The rows, in ascending order; `focus` -1 for none. */
export function selectRows(rows: readonly number[], focus: number): Selection {
  const ranges: [number, number][] = []
  for (const row of rows) {
    const last = ranges.at(-1)
    if (last && last[1] === row - 1) last[1] = row
    else ranges.push([row, row])
  }
  return { ranges, focus, anchor: focus }
}

export function isSelected(selection: Selection, row: number): boolean {
  const { ranges } = selection
  let low = 0
  let high = ranges.length - 1
  while (low <= high) {
    const middle = (low + high) >> 1
    const [first, last] = ranges[middle] as Range
    if (row < first) high = middle - 1
    else if (row > last) low = middle + 1
    else return true
  }
  return false
}

export function countSelected(selection: Selection): number {
  return selection.ranges.reduce((sum, [first, last]) => sum + last - first + 1, 0)
}

export function selectOnly(row: number): Selection {
  return { ranges: [[row, row]], focus: row, anchor: row }
}

export function selectAll(selection: Selection, total: number): Selection {
  return total === 0 ? NOTHING : { ...selection, ranges: [[0, total - 1]] }
}

export function selectNone(selection: Selection): Selection {
  return { ...selection, ranges: [] }
}

export function toggle(selection: Selection, row: number): Selection {
  const ranges = isSelected(selection, row) ? subtract(selection.ranges, row) : add(selection.ranges, [row, row])
  return { ranges, focus: row, anchor: row }
}

/** A press of the mouse on a row. */
export function click(selection: Selection, row: number, { shift, ctrl }: Modifiers = {}): Selection {
  if (shift) return extend(selection, row, ctrl)
  return ctrl ? toggle(selection, row) : selectOnly(row)
}

/** The keyboard goes to a row: it is selected, with shift all from the anchor to it, with ctrl nothing changes. */
export function moveTo(selection: Selection, row: number, { shift, ctrl }: Modifiers = {}): Selection {
  if (shift) return extend(selection, row, ctrl)
  return ctrl ? { ...selection, focus: row } : selectOnly(row)
}

function extend(selection: Selection, row: number, keepsOthers = false): Selection {
  const anchor = selection.anchor < 0 ? row : selection.anchor
  const range: Range = [Math.min(anchor, row), Math.max(anchor, row)]
  return { ranges: keepsOthers ? add(selection.ranges, range) : [range], focus: row, anchor }
}

function add(ranges: readonly Range[], [first, last]: Range): Range[] {
  const before = ranges.filter((range) => range[1] < first - 1)
  const after = ranges.filter((range) => range[0] > last + 1)
  const touched = ranges.slice(before.length, ranges.length - after.length)
  const start = Math.min(first, touched[0]?.[0] ?? first)
  return [...before, [start, Math.max(last, touched.at(-1)?.[1] ?? last)], ...after]
}

function subtract(ranges: readonly Range[], row: number): Range[] {
  return ranges.flatMap((range): Range[] => {
    const [first, last] = range
    if (row < first || row > last) return [range]
    const left: Range[] = row > first ? [[first, row - 1]] : []
    return row < last ? [...left, [row + 1, last]] : left
  })
}

/** The rows in a rectangle of lines and columns, in addition to those that were selected `before`. */
export function selectBox(before: Selection, lines: Range, columns: Range, perLine: number, total: number): Selection {
  let ranges: Range[] = [...before.ranges]
  for (let line = Math.max(0, lines[0]); line <= lines[1] && line * perLine < total; line++) {
    const first = line * perLine + columns[0]
    const last = Math.min(line * perLine + columns[1], total - 1)
    if (perLine === 1) return { ...before, ranges: add(ranges, [first, Math.min(lines[1], total - 1)]) }
    if (first <= last) ranges = add(ranges, [first, last])
  }
  return { ...before, ranges }
}

/** Return the number of rows that a key moves; null for other keys. `perPage` rows fit the view, `perLine` form a line. */
export function findTarget(key: string, focus: number, total: number, perPage: number, perLine = 1): number | null {
  const steps: Record<string, number> = {
    ArrowDown: perLine,
    ArrowUp: -perLine,
    PageDown: perPage,
    PageUp: -perPage,
    Home: -total,
    End: total,
    ...(perLine > 1 && { ArrowRight: 1, ArrowLeft: -1 }),
  }
  const step = steps[key]
  if (step === undefined || total === 0) return null
  if (focus < 0) return key === 'End' ? total - 1 : 0
  return Math.max(0, Math.min(total - 1, focus + step))
}
