import { expect, test } from 'vitest'
import { parseName } from '../src/state/tasks/names'

test.each([
  ['copy [/a](/b/c d.txt) to [/e](/f)', '/', { source: '/a/b/c d.txt', target: '/e/f', title: 'c d.txt' }],
  ['merge [/a](/b) to [/](/)', '/', { source: '/a/b', target: '/', title: 'b' }],
  ['move [/a](/x (1).txt) to [/e](/f (2))', '/', { source: '/a/x (1).txt', target: '/e/f (2)', title: 'x (1).txt' }],
  ['copy [/](/b) to [/](/f)', '/', { source: '/b', target: '/f', title: 'b' }],
  ['upload b to [x].txt to [/e](/)', '/', { source: '', target: '/e', title: 'b to [x].txt' }],
  [
    'download https://h/f(1).zip to (/e)',
    '/',
    { source: 'https://h/f(1).zip', target: '/e', title: 'https://h/f(1).zip' },
  ],
  ['transfer [](/tmp/f.zip) to [/e](/f)', '/', { source: '', target: '/e/f', title: 'f.zip' }],
  [
    'decompress [/a](/z.zip)[/] to [/e](/f) with password <***>',
    '/',
    { source: '/a/z.zip', target: '/e/f', title: 'z.zip' },
  ],
  [
    'decompress [/a](/z.zip)[/in] to [/e](/) with password <>',
    '/',
    { source: '/a/z.zip', target: '/e', title: 'z.zip /in' },
  ],
  ['copy [/a](/b) to [/home](/me/x)', '/home/me', { source: '', target: '/x', title: 'b' }],
  ['copy [/a](/b) to [/home](/me)', '/home/me', { source: '', target: '/', title: 'b' }],
  ['remove [/a](/b/c and 9 more)', '/', { source: '/a/b/c and 9 more', target: '', title: 'c and 9 more' }],
  ['remove_empty_directory [/a](/)', '/', { source: '/a', target: '', title: 'a' }],
  ['something new', '/', { source: '', target: '', title: 'something new' }],
])('%s below %s', (name, base, subject) => {
  expect(parseName(name, base)).toEqual(subject)
})
