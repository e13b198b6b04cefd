import { MAX_PAGE_LETTERS, serve } from './protocol'
import { findAll, parseXml, type XmlElement } from './xml'
import { isPicture, makePictureAddress, readText, resolve, unpack } from './zip'

/** A book: its chapters one below the other, with their pictures and without their scripts and styles. */
serve(({ bytes }) => {
  const members = unpack(bytes, (name) => /\.(opf|xml|xhtml|html?)$/i.test(name) || isPicture(name))
  const container = parseXml(readText(members, 'META-INF/container.xml'))
  const packageName = findAll(container, 'rootfile')[0]?.getAttribute('full-path') ?? ''
  const book = parseXml(readText(members, packageName))
  const items = new Map(findAll(book, 'item').map((item) => [item.getAttribute('id'), item.getAttribute('href') ?? '']))
  const chapters: string[] = []
  let letters = 0
  for (const reference of findAll(book, 'itemref')) {
    const address = items.get(reference.getAttribute('idref'))
    const html = address ? formatChapter(resolve(packageName, address)) : ''
    letters += html.length
    if (letters > MAX_PAGE_LETTERS) break
    chapters.push(`<article>${html}</article>`)
  }
  return { kind: 'page', html: chapters.join('<hr>') }

  function formatChapter(name: string): string {
    const root = parseXml(readText(members, name))
    for (const tag of ['img', 'image']) for (const picture of findAll(root, tag)) inline(picture, name)
    for (const tag of ['link', 'script', 'style'])
      for (const element of findAll(root, tag)) element.parentNode?.removeChild(element)
    return String(findAll(root, 'body')[0] ?? '')
      .replace(/^<body[^>]*>/, '')
      .replace(/<\/body>$/, '')
  }

  function inline(picture: XmlElement, chapter: string): void {
    for (const attribute of ['src', 'xlink:href', 'href']) {
      const address = picture.getAttribute(attribute)
      if (address) picture.setAttribute(attribute, makePictureAddress(members, resolve(chapter, address)))
    }
  }
})
