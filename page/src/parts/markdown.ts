import DOMPurify from 'dompurify'
import MarkdownIt from 'markdown-it'
import { type Place, resolvePlace } from './places'

/** The allowed elements and attributes: none that runs, sends or fetches anything, except pictures. */
const TAGS =
  'a abbr b blockquote br caption code dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark ol p pre q s ' +
  'samp small span strong sub summary sup table tbody td tfoot th thead tr u ul var'
const ATTRIBUTES = 'align alt colspan dir height href open rowspan src start title width'
const HELD = 'data-source' // where a picture's address waits: a `src` would be fetched at once

const markdown = new MarkdownIt({ html: true, linkify: true })
const sanitizer = DOMPurify(window)
sanitizer.addHook('afterSanitizeAttributes', (element) => {
  const source = element.getAttribute('src')
  element.removeAttribute('src')
  if (element.localName === 'img' && source !== null) element.setAttribute(HELD, source)
})

export interface Picture {
  image: HTMLImageElement
  place: Exclude<Place, { kind: 'anchor' | 'mail' }>
}

/** A text as elements that can be shown, and its pictures, which load nothing until they get their `src`. */
export interface Rendered {
  content: DocumentFragment
  pictures: Picture[]
}

/** `folder` is where relative addresses begin; `id` begins the ids of the headings. */
export function render(text: string, folder: string, id: string): Rendered {
  const content = sanitizer.sanitize(markdown.render(text), {
    ALLOWED_TAGS: TAGS.split(' '),
    ALLOWED_ATTR: ATTRIBUTES.split(' '),
    ALLOW_ARIA_ATTR: false,
    ALLOW_DATA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  })
  for (const heading of content.querySelectorAll('h1, h2, h3, h4, h5, h6')) {
    heading.id = `${id}-${makeAnchor(heading.textContent)}`
  }
  for (const item of content.querySelectorAll('li')) markTask(item)
  for (const link of content.querySelectorAll('a')) setTarget(link, folder, id)
  return { content, pictures: [...content.querySelectorAll('img')].flatMap((image) => holdPicture(image, folder)) }
}

/** An item of a list that begins with `[ ]` or `[x]` is a task: it has a box that cannot be changed here. */
function markTask(item: HTMLLIElement): void {
  const first = item.firstElementChild?.localName === 'p' ? item.firstElementChild.firstChild : item.firstChild
  const mark = first instanceof Text ? /^\s*\[([ xX])\]\s/.exec(first.data) : null
  if (!(first instanceof Text) || !mark) return
  first.data = first.data.slice(mark[0].length)
  const box = document.createElement('input')
  box.type = 'checkbox'
  box.disabled = true
  box.checked = mark[1] !== ' '
  box.setAttribute('aria-label', first.data.trim())
  item.classList.add('task')
  first.before(box, ' ')
}

function setTarget(link: HTMLAnchorElement, folder: string, id: string): void {
  const place = resolvePlace(link.getAttribute('href') ?? '', folder)
  if (place?.kind === 'anchor') link.href = `#${id}-${makeAnchor(place.name)}`
  else if (place?.kind === 'tree') link.setAttribute('href', place.address)
  else if (place?.kind === 'remote') {
    link.target = '_blank'
    link.rel = 'noopener noreferrer'
  } else if (place?.kind !== 'mail') link.removeAttribute('href')
}

function holdPicture(image: HTMLImageElement, folder: string): Picture[] {
  const place = resolvePlace(image.getAttribute(HELD) ?? '', folder)
  image.removeAttribute(HELD)
  image.alt ||= ''
  image.referrerPolicy = 'no-referrer'
  image.loading = 'lazy'
  return place && place.kind !== 'anchor' && place.kind !== 'mail' ? [{ image, place }] : []
}

/** A heading as links name it. */
function makeAnchor(text: string): string {
  return text
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-')
}
