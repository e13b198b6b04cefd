import { describe, expect, test } from 'vitest'
import { ancestors, baseName, join, makeFileAddress, parent } from '../src/api/paths'
import { formatAddress, formatTitle, parseAddress, ROUTES, type Route } from '../src/state/routes'
import { en } from '../src/text/en'

describe('tree paths', () => {
  test.each(['/', '/files', '/api', '/@manage', '/a b/100%/ü?#&', '/d/@login', '/\\'])('%s has an address', (path) => {
    expect(parseAddress(formatAddress({ view: 'files', path }))).toEqual({ view: 'files', path })
  })
  test.each([
    ['/', '/'],
    ['/@', '/'],
    ['/docs/x', '/docs/x'],
    ['/a//b/', '/a/b'],
    ['/@/100%', '/100%'],
  ])('the address %s is of %s', (address, path) => {
    expect(parseAddress(address)).toEqual({ view: 'files', path })
  })
  test('parts of a path', () => {
    expect(ancestors('/a/b')).toEqual(['/', '/a', '/a/b'])
    expect([parent('/a/b'), parent('/a'), parent('/')]).toEqual(['/a', '/', '/'])
    expect(makeFileAddress('/p', '/a b/50%25.txt', { d: '1' })).toBe('/p/a%20b/50%2525.txt?d=1')
    expect(makeFileAddress('/p', '/a?b', { d: '1' })).toBe('/p/a_b?d=1&path=%2Fa%3Fb')
    expect([join('/', 'a'), join('/a', 'b'), baseName('/a/b')]).toEqual(['/a', '/a/b', 'b'])
  })
})

test('the routes of the page itself', () => {
  expect(parseAddress('/@manage/storages')).toEqual({ view: 'manage', section: 'storages' })
  expect(parseAddress('/@profile')).toEqual({ view: 'profile' })
  expect(parseAddress('/@login', '?next=%2F%40%2Fa')).toEqual({ view: 'login', next: '/@/a' })
  expect(parseAddress('/@else')).toEqual({ view: 'unknown' })
})

test.each<[string, Route]>([
  ['/@links', { view: 'links' }],
  ['/@trash', { view: 'trash' }],
  ['/@profile', { view: 'profile' }],
  ['/@manage', { view: 'manage', section: '' }],
  ['/@manage/users/new', { view: 'manage', section: 'users/new' }],
  ['/@login', { view: 'login', next: '/' }],
  ['/@s/abc/a%20b', { view: 'files', path: '/@s/abc/a b' }],
])('the address %s is that of its route, both ways', (address, route) => {
  expect(parseAddress(address)).toEqual(route)
  expect(formatAddress(route)).toBe(address)
})

test('a view that names no address of its own is unknown', () => {
  expect(parseAddress('/@managed')).toEqual({ view: 'unknown' })
  expect(parseAddress('/@trash/x')).toEqual({ view: 'unknown' })
  expect(formatTitle({ view: 'unknown' }, en)).toBe('')
  expect(formatTitle({ view: 'files', path: '/a/b' }, en)).toBe('b')
  expect(formatTitle({ view: 'trash' }, en)).toBe(en.trash.title)
})

test('views of an account are closed to guests', () => {
  const audiences = Object.fromEntries(Object.entries(ROUTES).map(([view, { audience }]) => [view, audience]))
  expect(audiences).toEqual({
    files: 'guests',
    login: 'everyone',
    links: 'users',
    manage: 'administrators',
    profile: 'users',
    trash: 'users',
    unknown: 'guests',
  })
})
