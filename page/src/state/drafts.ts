import type { Session } from './session.svelte'

/** Texts that were edited and not saved, in memory. They outlive the view, and keep the window from closing unasked. */
export class Drafts {
  #texts = new Map<string, string>()

  constructor(private session: Session) {}

  find(path: string): string | undefined {
    return this.#texts.get(this.#makeKey(path))
  }

  keep(path: string, text: string): void {
    if (this.#texts.size === 0) window.addEventListener('beforeunload', hold)
    this.#texts.set(this.#makeKey(path), text)
  }

  forget(path: string): void {
    this.#texts.delete(this.#makeKey(path))
    if (this.#texts.size === 0) window.removeEventListener('beforeunload', hold)
  }

  /** Nobody finds the texts of who used the page before. */
  #makeKey(path: string): string {
    return `${this.session.user?.id}:${path}`
  }
}

function hold(event: BeforeUnloadEvent): void {
  event.preventDefault()
}
