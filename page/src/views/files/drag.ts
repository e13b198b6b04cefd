import type { Attachment } from 'svelte/attachments'
import type { HeldEntries, Mover } from '../../state/frame/mover.svelte'

const KIND = 'application/x-mangrove-entries'

/** Begin to drag entries of the page. */
export function beginDrag(event: DragEvent, entries: HeldEntries): void {
  if (!event.dataTransfer) return
  event.dataTransfer.setData(KIND, entries.folder)
  event.dataTransfer.effectAllowed = 'copyMove'
}

/** True if entries of the page are dragged. */
export function hasEntries({ dataTransfer }: DragEvent): boolean {
  return dataTransfer?.types.includes(KIND) ?? false
}

/** Show what a drop would do: a copy with Ctrl or Option, otherwise a move. */
export function showEffect(event: DragEvent): void {
  event.preventDefault()
  event.stopPropagation()
  if (event.dataTransfer) event.dataTransfer.dropEffect = isCopy(event) ? 'copy' : 'move'
}

export function isCopy({ ctrlKey, altKey }: DragEvent): boolean {
  return ctrlKey || altKey
}

/** Entries of the page that are dropped on the element go to the folder. */
export function acceptEntries(mover: Mover, getFolder: () => string): Attachment<HTMLElement> {
  return (element) => {
    const over = (event: DragEvent) => {
      if (!hasEntries(event)) return
      showEffect(event)
      element.dataset.accepts = ''
    }
    const leave = () => delete element.dataset.accepts
    const drop = (event: DragEvent) => {
      leave()
      if (!hasEntries(event) || !mover.dragged) return
      event.preventDefault()
      event.stopPropagation()
      void mover.carry({ ...mover.dragged, verb: isCopy(event) ? 'copy' : 'move' }, getFolder())
    }
    const ending = new AbortController()
    const { signal } = ending
    element.addEventListener('dragover', over, { signal })
    element.addEventListener('dragleave', leave, { signal })
    element.addEventListener('drop', drop, { signal })
    return () => ending.abort()
  }
}
