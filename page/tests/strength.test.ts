import { expect, test } from 'vitest'
import { estimateStrength } from '../src/parts/strength'

test.each([
  ['', 'weak'],
  ['aB3$x', 'weak'],
  ['password', 'weak'],
  ['12345678901234', 'weak'],
  ['aaaaaaaaaaaaaaaaaaaa', 'weak'],
  ['rosaline', 'weak'],
  ['tolirvenwek', 'fair'],
  ['g7Kx!p2Q', 'fair'],
  ['g7Kx!p2Qw9', 'good'],
  ['correct horse battery', 'strong'],
  ['密码应当很长才好记住', 'good'],
])('%s is %s', (password, strength) => {
  expect(estimateStrength(password)).toBe(strength)
})

test('the name of the user counts as one character', () => {
  expect(estimateStrength('bartholomew77', ['Bartholomew'])).toBe('weak')
  expect(estimateStrength('bartholomew77')).toBe('fair')
})
