import { decodePath, encodePath } from '../api/paths'
import { findShareId, formatShareAddress } from '../api/sharepaths'

/** The view that the address names. A tree path is `/@/<path>`, so that a folder can have any name; what is in a share
 *  has the path `/@s/<id>[/…]` in the tree, and the same address. */
export type Route =
  | { view: 'files'; path: string }
  | { view: 'login'; next: string }
  | { view: 'links' }
  | { view: 'manage'; section: string }
  | { view: 'profile' }
  | { view: 'trash' }
  | { view: 'unknown' }

export function parseAddress(pathname: string, search = ''): Route {
  if (pathname === '/@' || pathname.startsWith('/@/')) return { view: 'files', path: decodePath(pathname.slice(2)) }
  if (pathname === '/@login') return { view: 'login', next: new URLSearchParams(search).get('next') ?? '/' }
  if (pathname === '/@trash') return { view: 'trash' }
  if (pathname === '/@profile') return { view: 'profile' }
  if (pathname === '/@links') return { view: 'links' }
  if (findShareId(decodePath(pathname))) return { view: 'files', path: decodePath(pathname) }
  const [first, ...rest] = pathname.slice(1).split('/')
  if (first === '@manage') return { view: 'manage', section: rest.join('/') }
  if (first?.startsWith('@')) return { view: 'unknown' }
  return { view: 'files', path: decodePath(pathname) }
}

export function formatAddress(route: Route): string {
  switch (route.view) {
    case 'files':
      return findShareId(route.path) ? formatShareAddress(route.path) : `/@${encodePath(route.path)}`
    case 'login':
      return route.next === '/' ? '/@login' : `/@login?next=${encodeURIComponent(route.next)}`
    case 'manage':
      return route.section ? `/@manage/${route.section}` : '/@manage'
    case 'trash':
      return '/@trash'
    case 'profile':
      return '/@profile'
    case 'links':
      return '/@links'
    case 'unknown':
      return '/@/'
  }
}

class Router {
  route = $state.raw<Route>({ view: 'files', path: '/' })

  /** Follow the address from now on: the buttons of the browser, and clicks on links of the page. */
  start(): void {
    window.addEventListener('popstate', () => this.#read())
    document.addEventListener('click', (event) => this.#follow(event))
    this.#read()
    if (this.route.view === 'files') history.replaceState(history.state, '', formatAddress(this.route))
  }

  go(route: Route, how: 'push' | 'replace' = 'push'): void {
    const address = formatAddress(route)
    if (how === 'replace') history.replaceState(null, '', address)
    else if (address !== location.pathname + location.search) history.pushState(null, '', address)
    this.route = route
  }

  #read(): void {
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

export const router = new Router()
