import type { IconName } from './Icon.svelte'

/** Open the menu of an element as a right click would, beside it unless the pointer is somewhere. */
export function askForMenu(element: HTMLElement, at?: { clientX: number; clientY: number }): void {
  const { left, bottom } = element.getBoundingClientRect()
  const place = at ?? { clientX: left + 40, clientY: bottom }
  element.dispatchEvent(new MouseEvent('contextmenu', { bubbles: true, cancelable: true, ...place }))
}

/** An entry of a menu, wherever the menu is shown. */
export interface MenuItem {
  text: string
  icon: IconName
  run: () => void
  isDangerous?: boolean
}
