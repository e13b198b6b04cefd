import { expect, test } from 'vitest'
import { classify, type ProblemKind, type Word } from '../src/api/problem'

const KINDS: [Word, ProblemKind][] = [
  ['BadRequest', 'refused'],
  ['Collision', 'exists'],
  ['Denied', 'forbidden'],
  ['Exists', 'exists'],
  ['Missing', 'missing'],
  ['NotAFolder', 'notFolder'],
  ['NotFound', 'missing'],
  ['NotMounted', 'missing'],
  ['NotReadable', 'folderPassword'],
  ['PresentCodeRequired', 'secondFactor'],
  ['Problem', 'broken'],
  ['SecondFactorRequired', 'secondFactor'],
  ['TooMany', 'busy'],
  ['Unauthorized', 'signedOut'],
  ['Unreachable', 'broken'],
  ['WrongArchivePassword', 'archivePassword'],
]

test.each(KINDS)('%s is %s', (word, kind) => {
  expect(classify(word)).toBe(kind)
})
