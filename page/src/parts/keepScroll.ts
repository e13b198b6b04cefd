import type { Attachment } from 'svelte/attachments'
import type { Router } from '../state/router.svelte'
import { ROUTES } from '../state/routes'

const INPUTS = ['wheel', 'pointerdown', 'keydown', 'touchstart'] as const

/**
 * Keep how far a view is scrolled in the history, and go there when the user comes back. What the view shows arrives in
 * parts: the position is tried again with each of them until it is reached or the user does something.
 */
export function keepScroll(router: Router): Attachment<HTMLElement> {
  return (content) => keepScrollOf(content, router)
}

function keepScrollOf(content: HTMLElement, router: Router): (() => void) | undefined {
  if (!ROUTES[router.route.view].keepsScroll) return
  const position = router.position
  const ending = new AbortController()
  const { signal } = ending
  let isSettled = false
  const growth = new MutationObserver(restore)

  function restore() {
    const scroller = content.querySelector('[data-scroller]')
    if (scroller) scroller.scrollTop = position
    if (position === 0 || (scroller && Math.abs(scroller.scrollTop - position) < 1)) settle()
  }

  function settle() {
    if (isSettled) return
    isSettled = true
    growth.disconnect()
    const remember = ({ target }: Event) => {
      if (target instanceof Element && target.hasAttribute('data-scroller')) router.position = target.scrollTop
    }
    content.addEventListener('scroll', remember, { capture: true, passive: true, signal })
  }

  for (const input of INPUTS) content.addEventListener(input, settle, { once: true, passive: true, signal })
  if (position === 0) restore()
  else growth.observe(content, { childList: true, subtree: true, characterData: true })
  return () => {
    growth.disconnect()
    ending.abort()
  }
}
