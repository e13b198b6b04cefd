import { expect, it } from 'vitest'
import { filterNames, findPlaceFault, listSteps } from '../src/views/files/pick/place'

const entries = [
  { name: 'photos', is_dir: true },
  { name: 'note', is_dir: false },
]

it.each([
  ['/a', 'same'],
  ['/a/photos', 'inside'],
  ['/a/photos/2024', 'inside'],
  ['/a/photos 2', null],
  ['/a/note', null],
  ['/', null],
])('%s as target', (target, fault) => {
  expect(findPlaceFault(target, '/a', entries)).toBe(fault)
})

it('knows folders of the root', () => {
  expect(findPlaceFault('/photos/x', '/', entries)).toBe('inside')
})

it('shows first what begins with the letters', () => {
  expect(filterNames(['my Photos', 'photos', 'other'], 'PHO')).toEqual(['photos', 'my Photos'])
  expect(filterNames(['b', 'a'], '')).toEqual(['b', 'a'])
})

it('lists the steps to a folder', () => {
  expect(listSteps('/')).toEqual([{ path: '/', name: '' }])
  expect(listSteps('/a/b').map((step) => step.path)).toEqual(['/', '/a', '/a/b'])
})
