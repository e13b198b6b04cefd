import { baseName, decodePath, encodePath } from '../api/paths'
import { findShareId, formatShareAddress } from '../api/sharepaths'
import type { FirstTexts } from '../text/en'
import { formatName } from '../text/format'

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
export type ViewName = Route['view']

/** Who may see a view. Where guests are let in, they are users without an account. */
export type Audience = 'everyone' | 'guests' | 'users' | 'administrators'

interface Row<R extends Route> {
  /** The path of the address; `/*` at its end stands for nothing, or for a slash and the rest. */
  pattern: string
  /** The title of the window, '' for that of the site alone. */
  title: (texts: FirstTexts, route: R) => string
  audience: Audience
  /** True if Back returns to where the view was scrolled to. A list of files returns to its row by itself. */
  keepsScroll: boolean
  read: (rest: string, search: string) => R
  write: (route: R) => string
}

/** The rows in the order in which an address is compared with them. */
export const ROUTES: { [View in ViewName]: Row<Extract<Route, { view: View }>> } = {
  files: {
    pattern: '/@/*',
    title: (_, { path }) => formatName(baseName(path)),
    audience: 'guests',
    keepsScroll: false,
    read: (rest) => ({ view: 'files', path: decodePath(rest) }),
    write: ({ path }) => (findShareId(path) ? formatShareAddress(path) : `/@${encodePath(path)}`),
  },
  login: {
    pattern: '/@login',
    title: (texts) => texts.login.signIn,
    audience: 'everyone',
    keepsScroll: false,
    read: (_, search) => ({ view: 'login', next: new URLSearchParams(search).get('next') ?? '/' }),
    write: ({ next }) => (next === '/' ? '/@login' : `/@login?next=${encodeURIComponent(next)}`),
  },
  links: {
    pattern: '/@links',
    title: (texts) => texts.share.links.title,
    audience: 'users',
    keepsScroll: true,
    read: () => ({ view: 'links' }),
    write: () => '/@links',
  },
  manage: {
    pattern: '/@manage/*',
    title: (texts) => texts.titles.manage,
    audience: 'administrators',
    keepsScroll: true,
    read: (section) => ({ view: 'manage', section }),
    write: ({ section }) => (section ? `/@manage/${section}` : '/@manage'),
  },
  profile: {
    pattern: '/@profile',
    title: (texts) => texts.titles.profile,
    audience: 'users',
    keepsScroll: true,
    read: () => ({ view: 'profile' }),
    write: () => '/@profile',
  },
  trash: {
    pattern: '/@trash',
    title: (texts) => texts.trash.title,
    audience: 'users',
    keepsScroll: true,
    read: () => ({ view: 'trash' }),
    write: () => '/@trash',
  },
  unknown: {
    pattern: '/@/', // no address leads here but those of no other row
    title: () => '',
    audience: 'guests',
    keepsScroll: false,
    read: () => ({ view: 'unknown' }),
    write: () => '/@/',
  },
}

export function parseAddress(pathname: string, search = ''): Route {
  for (const { pattern, read } of Object.values(ROUTES)) {
    const rest = match(pattern, pathname)
    if (rest !== null) return read(rest, search)
  }
  const path = decodePath(pathname)
  return pathname.startsWith('/@') && !findShareId(path) ? { view: 'unknown' } : { view: 'files', path }
}

/** The rest of a path that a pattern names; null if it names another one. */
function match(pattern: string, pathname: string): string | null {
  if (!pattern.endsWith('/*')) return pattern === pathname ? '' : null
  const base = pattern.slice(0, -2)
  if (pathname === base) return ''
  return pathname.startsWith(`${base}/`) ? pathname.slice(base.length + 1) : null
}

export function formatAddress(route: Route): string {
  return findRow(route).write(route)
}

export function formatTitle(route: Route, texts: FirstTexts): string {
  return findRow(route).title(texts, route)
}

function findRow(route: Route): Row<Route> {
  return ROUTES[route.view] as unknown as Row<Route> // the row of a view takes the routes of that view
}
