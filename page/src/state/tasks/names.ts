import { baseName, join } from '../../api/paths'

/** The paths in the name of a task; '' for a path that it does not have. */
export interface Subject {
  source: string
  /** The folder that it brings something into. */
  target: string
  /** The title: the last part of the source. */
  title: string
}

const PLACE = /^(?<before>.*) to \[(?<mount>\/.*?)\]\((?<path>\/.*)\)(?: with password <.*>)?$/s
const DOWNLOAD = /^download (?<url>\S+) to \((?<path>\/.*)\)$/s
const SOURCE = /^\S+ \[(?<mount>.*?)\]\((?<path>.*?)\)(?:\[(?<inner>.*)\])?$/s

/** The parts of a name, which the interface has as one text. `base`: the folder below which the user sees the tree. */
export function parseName(name: string, base: string): Subject {
  const download = DOWNLOAD.exec(name)?.groups
  if (download) {
    const { url = '', path = '' } = download
    return { source: url, target: see(path, base), title: url }
  }
  const { before = name, mount = '', path = '' } = PLACE.exec(name)?.groups ?? {}
  const target = mount && see(joinInner(mount, path), base)
  const source = SOURCE.exec(before)?.groups
  if (!source) {
    const title = before.replace(/^upload /, '') || name
    return { source: '', target, title }
  }
  const isInTree = source.mount?.startsWith('/')
  const full = isInTree ? joinInner(source.mount ?? '', source.path ?? '') : ''
  const inner = source.inner && source.inner !== '/' ? ` ${source.inner}` : ''
  const title = isInTree ? baseName(full) + inner : source.mount || baseName(source.path ?? '')
  return { source: isInTree ? see(full, base) : '', target, title }
}

function joinInner(mount: string, path: string): string {
  return path === '/' ? mount : join(mount, path.slice(1))
}

/** As the user sees the path; '' when it is not below the base. */
function see(path: string, base: string): string {
  if (base === '/' || base === '') return path
  if (path === base) return '/'
  return path.startsWith(`${base}/`) ? path.slice(base.length) : ''
}
