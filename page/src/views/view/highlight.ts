import hljs from 'highlight.js/lib/common'
import { findEnding } from '../../parts/kinds'

const OTHERS: Record<string, string> = {
  conf: 'ini',
  cfg: 'ini',
  htm: 'xml',
  ipynb: 'json',
  jsonl: 'json',
  properties: 'ini',
  service: 'ini',
  svelte: 'xml',
  vue: 'xml',
} // prettier-ignore
const CLASS = /^(hljs-[\w-]+|language-[\w-]+|[\w-]+_{1,2})$/

/** The code with its words in elements that can be coloured; null where the language of that name is not known. */
export function highlight(code: string, name: string): DocumentFragment | null {
  const ending = findEnding(name) || name.toLowerCase()
  const language = OTHERS[ending] ?? ending
  if (!hljs.getLanguage(language)) return null
  const html = hljs.highlight(code, { language, ignoreIllegals: true }).value
  const made = new DOMParser().parseFromString(`<body><span>${html}</span>`, 'text/html')
  const fragment = new DocumentFragment()
  copySpans(made.body.firstElementChild ?? made.body, fragment)
  return fragment
}

/** Only texts and spans come across, whatever a fault of the library lets through. */
function copySpans(from: Element, to: DocumentFragment | HTMLElement): void {
  for (const node of from.childNodes) {
    if (node instanceof Element) {
      const span = document.createElement('span')
      span.className = [...node.classList].filter((className) => CLASS.test(className)).join(' ')
      copySpans(node, span)
      to.append(span)
    } else if (node.nodeType === Node.TEXT_NODE) to.append(node.textContent ?? '')
  }
}
