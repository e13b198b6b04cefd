import { describe, expect, it } from 'vitest'
import { resolvePlace } from '../src/parts/places'

describe('addresses in a text', () => {
  it.each([
    ['b.md', '/files', '/files/b.md'],
    ['../b c/%E4%B8%AD.png', '/files/x', '/files/b c/中.png'],
    ['../../../../b', '/files', '/b'],
    ['/top/b', '/files', '/top/b'],
    ['b#part', '/', '/b'],
    ['b', '/100%/#x?', '/100%/#x?/b'],
  ])('%s in %s is a place of the tree', (address, folder, path) => {
    expect(resolvePlace(address, folder)).toMatchObject({ kind: 'tree', path })
  })

  it.each(['http://a.example/x', 'https://a.example', '//a.example/x', '\\\\a.example\\x', ' https://a.example'])(
    '%s is remote',
    (address) => {
      expect(resolvePlace(address, '/files')).toMatchObject({ kind: 'remote', host: 'a.example' })
    },
  )

  it.each([
    'javascript:alert(1)',
    'JaVa\nScript:alert(1)',
    'data:text/html,x',
    'file:///etc/passwd',
    'blob:x',
    '',
    ' ',
  ])('%s leads nowhere', (address) => {
    expect(resolvePlace(address, '/files')).toBeNull()
  })

  it('knows anchors, mail and pictures that are part of the text', () => {
    expect(resolvePlace('#%C3%BCber', '/files')).toEqual({ kind: 'anchor', name: 'über' })
    expect(resolvePlace('mailto:a@b.example', '/files')).toEqual({ kind: 'mail' })
    expect(resolvePlace('data:image/png;base64,AA', '/files')).toMatchObject({ kind: 'data' })
  })
})
