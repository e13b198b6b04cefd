/** The token of the session in this tab, and its exchange between the tabs of this browser. */

const KEY = 'mangrove.token' // in sessionStorage: the session of the tab; in localStorage: the session that is kept
const OPEN_KEY = 'mangrove.open' // in localStorage while a tab has a session, so that a new tab asks for it
const COMPATIBLE_KEY = 'token' // in localStorage: where single sign-on in its compatibility mode leaves a token
const MAX_WAIT_MS = 500 // for another tab to answer

type Message = { kind: 'ask' } | { kind: 'offer'; token: string } | { kind: 'end'; token: string }

export class TabSession {
  #channel = new BroadcastChannel('mangrove.session')
  #current: () => string
  #onoffer: (token: string) => void = () => {}

  /** `current`: the token in use, '' for none; `onended`: called when another tab signed out of it. */
  constructor(current: () => string, onended: () => void) {
    this.#current = current
    this.#channel.onmessage = ({ data }: MessageEvent<Message>) => {
      if (data.kind === 'ask' && current()) this.#send({ kind: 'offer', token: current() })
      if (data.kind === 'offer') this.#onoffer(data.token)
      if (data.kind === 'end' && data.token === current()) onended()
    }
  }

  /** True if the session is kept when all tabs are closed. */
  get isKept(): boolean {
    return localStorage.getItem(KEY) !== null
  }

  /** The token of this tab, else the one that is kept, else that of another tab; '' without any. */
  async find(): Promise<string> {
    const stored = takeCompatible() ?? sessionStorage.getItem(KEY) ?? localStorage.getItem(KEY)
    const token = stored ?? (localStorage.getItem(OPEN_KEY) ? await this.#ask() : '')
    if (token) {
      sessionStorage.setItem(KEY, token)
      localStorage.setItem(OPEN_KEY, '1')
    } else localStorage.removeItem(OPEN_KEY)
    return token
  }

  /** Store the token in use for this tab, and on this device if the user stays signed in. */
  store(stay: boolean): void {
    sessionStorage.setItem(KEY, this.#current())
    localStorage.setItem(OPEN_KEY, '1')
    if (stay) localStorage.setItem(KEY, this.#current())
    else localStorage.removeItem(KEY)
  }

  /** Remove the token here, and from every other tab that has the same session. */
  clear(): void {
    const token = this.#current()
    sessionStorage.removeItem(KEY)
    if (!token) return
    localStorage.removeItem(OPEN_KEY)
    if (localStorage.getItem(KEY) === token) localStorage.removeItem(KEY)
    this.#send({ kind: 'end', token })
  }

  #ask(): Promise<string> {
    return new Promise((resolve) => {
      const answer = (token: string) => {
        this.#onoffer = () => {}
        resolve(token)
      }
      this.#onoffer = answer
      setTimeout(() => answer(''), MAX_WAIT_MS)
      this.#send({ kind: 'ask' })
    })
  }

  #send(message: Message): void {
    this.#channel.postMessage(message)
  }
}

function takeCompatible(): string | null {
  const token = localStorage.getItem(COMPATIBLE_KEY)
  localStorage.removeItem(COMPATIBLE_KEY)
  return token || null
}
