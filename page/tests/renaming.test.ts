import { describe, expect, it } from 'vitest'
import { previewNames, type Rule } from '../src/views/files/rename/names'
import { compilePattern } from '../src/views/files/rename/pattern'

const files = (...names: string[]) => names.map((name) => ({ name, is_dir: !name.includes('.') }))
const RULE: Rule = { mode: 'replace', find: '', replacement: '', first: 1, lines: '' }
const preview = (names: string[], rule: Partial<Rule>, existing = names) =>
  previewNames(files(...names), { ...RULE, ...rule }, new Set(existing))

describe('patterns', () => {
  it.each([
    ['(\\d+)-(\\w+)', '$2-$1', 'a 12-x', 'a x-12'],
    ['a', '$1x', 'cat', 'ct'], // the group named `1x`
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a template of Go, not of JavaScript
    ['(a)', '${1}x', 'cat', 'caxt'],
    ['(?P<word>\\w+)\\.txt', '$word.md', 'note.txt', 'note.md'],
    ['o', '$$', 'foo', 'f$$'],
    ['(?i)JPE?G$', 'jpg', 'a.JPEG', 'a.jpg'],
    ['.', '$0$0', 'ab', 'aabb'],
  ])('%s with %s', (pattern, template, old, expected) => {
    expect(compilePattern(pattern, template)(old)).toBe(expected)
  })

  it('refuses what is no pattern', () => {
    expect(() => compilePattern('(', 'x')).toThrow(SyntaxError)
  })
})

describe('previewNames', () => {
  it('leaves out what does not change', () => {
    expect(preview(['a.txt', 'b.txt'], { find: 'a', replacement: 'c' })).toEqual([
      { old: 'a.txt', new: 'c.txt', fault: null },
    ])
    expect(preview(['a.txt'], { mode: 'pattern', find: '', replacement: 'x' })).toEqual([])
  })

  it('takes text as it is', () => {
    expect(preview(['a.b.txt'], { find: '.', replacement: '$&' })[0]?.new).toBe('a$&b$&txt')
  })

  it('numbers in the order given, and keeps extensions', () => {
    const names = preview(['x.png', 'y', 'z.tar'], { mode: 'number', replacement: 'Photo ##', first: 9 })
    expect(names.map((renaming) => renaming.new)).toEqual(['Photo 09.png', 'Photo 10', 'Photo 11.tar'])
    expect(preview(['x.png'], { mode: 'number', replacement: 'P' })[0]?.new).toBe('P 1.png')
  })

  it('finds names that two would have, that are taken, and that cannot be', () => {
    const faults = (names: string[], rule: Partial<Rule>, existing?: string[]) =>
      preview(names, rule, existing).map((renaming) => renaming.fault)
    expect(faults(['a1', 'a2'], { mode: 'pattern', find: '\\d', replacement: '' })).toEqual(['twice', 'twice'])
    expect(faults(['a'], { find: 'a', replacement: 'b' }, ['a', 'b'])).toEqual(['taken'])
    expect(faults(['a'], { find: 'a', replacement: 'b/c' })).toEqual(['slash'])
    expect(faults(['a'], { mode: 'list', lines: '' })).toEqual(['empty'])
  })

  it('lets two entries change their names with each other', () => {
    expect(preview(['a', 'b'], { mode: 'list', lines: 'b\na' }).map((renaming) => renaming.fault)).toEqual([null, null])
  })
})
