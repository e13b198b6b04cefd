import { escapeHtml, serve } from './protocol'
import { findAll, parseXml, type XmlElement } from './xml'
import { isPicture, makePictureAddress, readText, resolve, unpack } from './zip'

const MAX_SLIDES = 500

/** The slides of a presentation of PowerPoint: their texts and pictures, in the order of the slides. */
serve(({ bytes }) => {
  const members = unpack(
    bytes,
    (name) =>
      /^ppt\/(_rels\/|slides\/|presentation\.xml)/.test(name) || (name.startsWith('ppt/media/') && isPicture(name)),
  )
  const relations = readRelations('ppt/presentation.xml')
  const slides = findAll(parseXml(readText(members, 'ppt/presentation.xml')), 'p:sldId').slice(0, MAX_SLIDES)
  const html = slides
    .map((slide, index) => formatSlide(relations.get(slide.getAttribute('r:id') ?? '') ?? '', index + 1))
    .join('')
  return { kind: 'page', html: `<style>${STYLE}</style>${html}` }

  /** The members that a member refers to, by the identifier of the reference. */
  function readRelations(name: string): Map<string, string> {
    const slash = name.lastIndexOf('/')
    const text = readText(members, `${name.slice(0, slash)}/_rels${name.slice(slash)}.rels`)
    if (!text) return new Map()
    return new Map(
      findAll(parseXml(text), 'Relationship')
        .filter((relation) => relation.getAttribute('TargetMode') !== 'External')
        .map((relation) => [relation.getAttribute('Id') ?? '', resolve(name, relation.getAttribute('Target') ?? '')]),
    )
  }

  function formatSlide(name: string, number: number): string {
    const text = readText(members, name)
    if (!text) return ''
    const root = parseXml(text)
    const targets = readRelations(name)
    const shapes = findAll(root, 'p:sp').map(formatShape)
    const tables = findAll(root, 'a:tbl').map(formatTable)
    const pictures = findAll(root, 'a:blip')
      .map((picture) => makePictureAddress(members, targets.get(picture.getAttribute('r:embed') ?? '') ?? ''))
      .filter(Boolean)
      .map((address) => `<img alt="" src="${address}">`)
    return `<section><small>${number}</small>${shapes.join('')}${tables.join('')}${pictures.join('')}</section>`
  }
})

function formatShape(shape: XmlElement): string {
  const kind = findAll(shape, 'p:ph')[0]?.getAttribute('type') ?? ''
  const lines = listParagraphs(shape)
  if (kind === 'title' || kind === 'ctrTitle') return `<h2>${lines.join('<br>')}</h2>`
  return lines.map((line) => `<p>${line}</p>`).join('')
}

function formatTable(table: XmlElement): string {
  const rows = findAll(table, 'a:tr').map((row) => {
    const cells = findAll(row, 'a:tc').map((cell) => `<td>${listParagraphs(cell).join('<br>')}</td>`)
    return `<tr>${cells.join('')}</tr>`
  })
  return `<table>${rows.join('')}</table>`
}

function listParagraphs(element: XmlElement): string[] {
  return findAll(element, 'a:p')
    .map((paragraph) =>
      findAll(paragraph, 'a:t')
        .map((text) => escapeHtml(text.textContent ?? ''))
        .join(''),
    )
    .filter(Boolean)
}

const STYLE = `section { position: relative; min-height: 18rem; margin: 0 0 1.5rem; padding: 1.5rem 2rem; border: 1px solid #d5dbe1; border-radius: .5rem }
section > small { position: absolute; top: .5rem; right: .75rem; color: #667 }`
