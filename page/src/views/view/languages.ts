import { HighlightStyle, LanguageDescription, type LanguageSupport } from '@codemirror/language'
import { languages } from '@codemirror/language-data'
import { tags } from '@lezer/highlight'

/** The colours of code.css, which the editor inherits. */
export const COLOURS = HighlightStyle.define([
  { tag: [tags.comment, tags.meta, tags.quote], color: 'var(--quiet)' },
  { tag: [tags.keyword, tags.tagName, tags.heading, tags.deleted], color: 'var(--code-keyword)' },
  { tag: [tags.string, tags.regexp, tags.inserted, tags.link, tags.url], color: 'var(--code-string)' },
  { tag: [tags.number, tags.bool, tags.null, tags.atom, tags.typeName], color: 'var(--code-literal)' },
  {
    tag: [tags.function(tags.variableName), tags.definition(tags.variableName), tags.className],
    color: 'var(--code-title)',
  },
  { tag: [tags.attributeName, tags.propertyName, tags.variableName], color: 'var(--code-attribute)' },
  { tag: tags.heading, fontWeight: '700' },
  { tag: tags.strong, fontWeight: '700' },
  { tag: tags.emphasis, fontStyle: 'italic' },
])

/** A text whose language cannot be loaded has no colours. */
export async function loadLanguage(name: string): Promise<LanguageSupport | null> {
  const description = LanguageDescription.matchFilename(languages, name)
  return description ? await description.load().catch(() => null) : null
}
