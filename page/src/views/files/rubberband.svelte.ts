import type { Range, Selection } from '../../state/selection'

const MIN_DISTANCE = 5 // px that the pointer moves before a band begins
const EDGE = 24 // px at the edge of the list where it scrolls
const SCROLL_STEP = 16 // px of one move

interface Box {
  left: number
  top: number
  width: number
  height: number
}

interface List {
  findLine: (clientY: number) => number
  findColumn: (clientX: number, box: DOMRect) => number
  select: (before: Selection, lines: Range, columns: Range) => void
  scroll: (pixels: number) => void
  perLine: () => number
}

/** A rectangle that is drawn with the mouse, beginning beside the names, and selects what it touches. */
export class RubberBand {
  /** In px of the window; null while none is drawn. */
  box = $state.raw<Box | null>(null)
  #hasDrawn = false

  constructor(private list: List) {}

  begin(event: PointerEvent, before: Selection): void {
    const grid = event.currentTarget
    this.#hasDrawn = false
    if (event.pointerType !== 'mouse' || event.button !== 0 || event.shiftKey || !(grid instanceof HTMLElement)) return
    const start = { x: event.clientX, y: event.clientY, line: this.list.findLine(event.clientY) }
    const ending = new AbortController()
    const { signal } = ending
    const move = (moved: PointerEvent) => this.#draw(grid, start, moved, before)
    const end = () => {
      this.box = null
      ending.abort()
    }
    window.addEventListener('pointermove', move, { signal })
    window.addEventListener('pointerup', end, { signal })
    window.addEventListener('pointercancel', end, { signal })
  }

  /** True if the click that is heard is the end of a band. */
  takeClick(): boolean {
    const hasDrawn = this.#hasDrawn
    this.#hasDrawn = false
    return hasDrawn
  }

  #draw(
    grid: HTMLElement,
    start: { x: number; y: number; line: number },
    { clientX, clientY }: PointerEvent,
    before: Selection,
  ): void {
    if (!this.box && Math.hypot(clientX - start.x, clientY - start.y) < MIN_DISTANCE) return
    this.#hasDrawn = true
    getSelection()?.removeAllRanges()
    const view = (grid.parentElement ?? grid).getBoundingClientRect()
    if (clientY > view.bottom - EDGE) this.list.scroll(SCROLL_STEP)
    else if (clientY < view.top + EDGE) this.list.scroll(-SCROLL_STEP)
    const lines = sort(start.line, this.list.findLine(clientY))
    const box = grid.getBoundingClientRect()
    const last = this.list.perLine() - 1
    const columns = sort(this.list.findColumn(start.x, box), this.list.findColumn(clientX, box))
    this.list.select(before, lines, [Math.max(0, columns[0]), Math.min(last, columns[1])])
    this.box = {
      left: Math.min(start.x, clientX),
      top: Math.max(view.top, Math.min(start.y, clientY)),
      width: Math.abs(start.x - clientX),
      height: Math.abs(start.y - clientY),
    }
  }
}

function sort(a: number, b: number): Range {
  return a < b ? [a, b] : [b, a]
}
