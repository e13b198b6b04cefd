import { DOMParser, type Element as XmlElement, type Node as XmlNode } from '@xmldom/xmldom'

export type { XmlElement, XmlNode }

/** Return the root of an XML text. Throws Error if it is no XML. */
export function parseXml(text: string): XmlElement {
  const root = new DOMParser({ onError: () => {} }).parseFromString(text, 'text/xml').documentElement
  if (!root) throw new Error('This is no XML.')
  return root
}

/** Return the elements below `root` with that name, its prefix included, in the order of the text. */
export function findAll(root: XmlElement, name: string): XmlElement[] {
  return Array.from(root.getElementsByTagName(name))
}

export function isElement(node: XmlNode): node is XmlElement {
  return node.nodeType === 1
}

export function listChildren(node: XmlNode): XmlNode[] {
  return Array.from(node.childNodes)
}
