import type { Attachment } from 'svelte/attachments'

const SHORTEST = 450 // ms
const FARTHEST = 10 // px that a finger may move meanwhile

/** A finger that rests on the element: `act` is told what it rests on. No menu of the browser's or of ours comes then. */
export function onLongPress(act: (target: Element) => void): Attachment<HTMLElement> {
  return (element) => {
    let timer: ReturnType<typeof setTimeout> | undefined
    let start = { x: 0, y: 0 }
    let isFinger = false
    let hasActed = false

    function press(event: PointerEvent) {
      end()
      hasActed = false
      isFinger = event.pointerType === 'touch'
      if (!isFinger || !event.isPrimary) return
      const { target } = event
      start = { x: event.clientX, y: event.clientY }
      timer = setTimeout(() => {
        hasActed = true
        if (!(target instanceof Element)) return
        // the menu around the list waits for a long press too: it is to give up
        target.dispatchEvent(new PointerEvent('pointercancel', { bubbles: true, pointerType: 'touch' }))
        act(target)
      }, SHORTEST)
    }

    function move(event: PointerEvent) {
      if (Math.hypot(event.clientX - start.x, event.clientY - start.y) > FARTHEST) end()
    }

    function end() {
      clearTimeout(timer)
    }

    /** Suppress what the browser does for the same press. A menu that a key opens is let through. */
    function prevent(event: Event) {
      const isOfFinger = event.type === 'click' ? hasActed : isFinger && event.isTrusted
      if (!isOfFinger) return
      if (event.type === 'click') hasActed = false
      event.preventDefault()
      event.stopPropagation()
    }

    const listeners: [string, (event: never) => void, boolean][] = [
      ['pointerdown', press, true],
      ['pointermove', move, true],
      ['pointerup', end, true],
      ['pointercancel', end, true],
      ['contextmenu', prevent, true],
      ['click', prevent, true],
    ]
    for (const [type, listener, capture] of listeners)
      element.addEventListener(type, listener as EventListener, capture)
    return () => {
      end()
      for (const [type, listener] of listeners) element.removeEventListener(type, listener as EventListener, true)
    }
  }
}
