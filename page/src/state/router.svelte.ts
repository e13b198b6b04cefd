import { formatAddress, parseAddress, type Route } from './routes'

const MAX_POSITIONS = 200 // entries of the history whose scroll positions are known

interface HistoryState {
  entry: number
}

export class Router {
  route = $state.raw<Route>({ view: 'files', path: '/' })
  #entry = 0 // of the history
  #last = 0
  #positions = new Map<number, number>() // px by entry

  /** Follow the address from now on: the buttons of the browser, and clicks on links of the page. */
  start(): void {
    window.addEventListener('popstate', () => this.#read())
    document.addEventListener('click', (event) => this.#follow(event))
    this.#last = readEntry()
    this.#read()
    if (this.route.view === 'files') history.replaceState(history.state, '', formatAddress(this.route))
  }

  go(route: Route, how: 'push' | 'replace' = 'push'): void {
    const address = formatAddress(route)
    const state: HistoryState = { entry: this.#entry }
    if (how === 'replace') history.replaceState(state, '', address)
    else if (address !== location.pathname + location.search) {
      this.#entry = state.entry = ++this.#last
      this.#positions.delete(this.#entry)
      history.pushState(state, '', address)
    }
    this.route = route
  }

  /** The px by which the view of this entry of the history was scrolled when it was left. */
  get position(): number {
    return this.#positions.get(this.#entry) ?? 0
  }

  set position(pixels: number) {
    this.#positions.delete(this.#entry)
    this.#positions.set(this.#entry, pixels)
    const [oldest] = this.#positions.keys()
    if (this.#positions.size > MAX_POSITIONS && oldest !== undefined) this.#positions.delete(oldest)
  }

  #read(): void {
    this.#entry = readEntry()
    this.route = parseAddress(location.pathname, location.search)
  }

  #follow(event: MouseEvent): void {
    const isPlain = event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey)
    const link = event.target instanceof Element ? event.target.closest('a') : null
    if (event.defaultPrevented || !isPlain || !link || link.target || link.hasAttribute('download')) return
    const address = new URL(link.href)
    if (address.hash && address.pathname === location.pathname) return // a place of the view that is shown
    if (address.origin !== location.origin || !address.pathname.startsWith('/@')) return
    event.preventDefault()
    this.go(parseAddress(address.pathname, address.search))
  }
}

function readEntry(): number {
  const state: Partial<HistoryState> | null = history.state
  return state?.entry ?? 0
}
