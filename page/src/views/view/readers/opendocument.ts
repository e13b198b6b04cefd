import { escapeHtml, serve } from './protocol'
import { findAll, isElement, listChildren, parseXml, type XmlElement, type XmlNode } from './xml'
import { isPicture, makePictureAddress, readText, unpack } from './zip'

const TAGS: Record<string, string> = {
  'draw:page': 'section',
  'table:table': 'table',
  'table:table-row': 'tr',
  'table:table-cell': 'td',
  'text:list': 'ul',
  'text:list-item': 'li',
  'text:p': 'p',
  'text:span': 'span',
}
const MAX_SPACES = 100
const UNSHOWN = new Set(['office:annotation', 'presentation:notes', 'text:tracked-changes', 'text:sequence-decls'])

/** A text or a presentation in the OpenDocument format: headings, paragraphs, lists, tables and pictures. */
serve(({ bytes }) => {
  const members = unpack(bytes, (name) => name === 'content.xml' || isPicture(name))
  const body = findAll(parseXml(readText(members, 'content.xml')), 'office:body')[0]
  if (!body) throw new Error('The document has no body.')
  return { kind: 'page', html: formatChildren(body) }

  function format(node: XmlNode): string {
    if (node.nodeType === 3) return escapeHtml(node.nodeValue ?? '')
    if (!isElement(node) || UNSHOWN.has(node.tagName)) return ''
    switch (node.tagName) {
      case 'text:h':
        return wrap(`h${Math.min(6, Math.max(1, Number(node.getAttribute('text:outline-level')) || 1))}`, node)
      case 'text:s':
        return ' '.repeat(Math.min(MAX_SPACES, Number(node.getAttribute('text:c')) || 1))
      case 'text:tab':
        return '\t'
      case 'text:line-break':
        return '<br>'
      case 'draw:image': {
        const address = makePictureAddress(members, node.getAttribute('xlink:href') ?? '')
        return address ? `<img alt="" src="${address}">` : ''
      }
    }
    const tag = TAGS[node.tagName]
    return tag ? wrap(tag, node) : formatChildren(node)
  }

  function wrap(tag: string, element: XmlElement): string {
    return `<${tag}>${formatChildren(element)}</${tag}>`
  }

  function formatChildren(element: XmlElement): string {
    return listChildren(element).map(format).join('')
  }
})
