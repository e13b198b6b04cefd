import { describe, expect, test } from 'vitest'
import { findShareId, formatShareAddress, listFolders, makeShareBytesAddress } from '../src/api/sharepaths'
import { EMPTY_SHARE, readExtensions, type Share, type ShareDraft } from '../src/api/shares'
import { formatAddress, parseAddress } from '../src/state/routes'
import { Language } from '../src/text/language.svelte'
import { fillFields, findFaults, formatLocal, makePassword, readFields } from '../src/views/share/form'
import { describeShare, findState, nameShare } from '../src/views/share/states'

const NOW = new Date('2026-03-01T12:00:00Z').getTime()
const DAY = 24 * 3600 * 1000

const SHARE: ShareDraft = { ...EMPTY_SHARE, id: 'abc', files: ['/docs/report'] }

describe('paths of shares', () => {
  test.each([
    ['/@s/abc', 'abc'],
    ['/@s/abc/a/b', 'abc'],
    ['/@s', ''],
    ['/', ''],
    ['/docs/@s/abc', ''],
    ['/@special/abc', ''],
  ])('%s is of the share "%s"', (path, id) => {
    expect(findShareId(path)).toBe(id)
  })

  test.each(['/@s/abc', '/@s/abc/a b/100%', '/@s/中文_-1/@x/?#'])('%s has an address', (path) => {
    const address = formatAddress({ view: 'files', path })
    expect(address).toMatch(/^\/@s\//)
    expect(parseAddress(address)).toEqual({ view: 'files', path })
  })

  test('the folders above the share are not listed', () => {
    expect(listFolders('/@s/abc/a/b')).toEqual(['/@s/abc', '/@s/abc/a', '/@s/abc/a/b'])
    expect(listFolders('/a')).toEqual(['/', '/a'])
  })

  test('bytes have an address with the password', () => {
    expect(makeShareBytesAddress('/@s/abc/a b', '')).toBe('/sd/abc/a%20b')
    expect(makeShareBytesAddress('/@s/abc', 'a&b', true)).toBe('/sd/abc/?zip=&pwd=a%26b')
    expect(formatShareAddress('/@s/abc/ü')).toBe('/@s/abc/%C3%BC')
  })
})

describe('the form of a share', () => {
  test('a new share ends after a week', () => {
    const share = readFields(SHARE, fillFields(EMPTY_SHARE, true), NOW)
    expect(share.expires).toBe(new Date(NOW + 7 * DAY).toISOString())
  })

  test('the fields of a share give the same share', () => {
    const share: ShareDraft = {
      ...SHARE,
      expires: new Date(NOW + DAY).toISOString(),
      password: 'x',
      maxVisits: 3,
      mode: 'drop',
      maxFileBytes: 5 * 2 ** 20,
      maxTotalBytes: 0,
      maxFiles: 7,
      extensions: 'jpg, pdf',
    }
    expect(readFields(share, fillFields(share, false), NOW)).toEqual(share)
    expect(readFields(SHARE, fillFields(SHARE, false), NOW)).toEqual(SHARE)
  })

  test('what cannot be is found', () => {
    const fields = fillFields(SHARE, true)
    expect(findFaults(fields, NOW)).toEqual({})
    const past = formatLocal(new Date(NOW - DAY))
    expect(findFaults({ ...fields, end: 'date', date: past, id: 'a/b', visits: '-1' }, NOW)).toEqual({
      date: 'date',
      id: 'id',
      visits: 'number',
    })
    expect(findFaults({ ...fields, end: 'date', date: '' }, NOW)).toEqual({ date: 'date' })
    expect(findFaults({ ...fields, id: '文件_a-1' }, NOW)).toEqual({})
    expect(findFaults({ ...fields, id: 'x'.repeat(65) }, NOW)).toEqual({ id: 'id' })
  })

  test('a password is made of letters that do not look alike', () => {
    expect(makePassword()).toMatch(/^[a-km-np-zA-HJ-NP-Z2-9]{12}$/)
    expect(makePassword()).not.toBe(makePassword())
  })

  test('endings are read with and without dots', () => {
    expect(readExtensions(' JPG, .pdf;*.tar.gz  ')).toEqual(['jpg', 'pdf', 'tar.gz'])
    expect(readExtensions('')).toEqual([])
  })
})

describe('the state of a share', () => {
  const share = { ...SHARE, visits: 0 } as Share

  test.each([
    [{}, 'active'],
    [{ expires: new Date(NOW).toISOString() }, 'expired'],
    [{ expires: new Date(NOW + 1).toISOString() }, 'active'],
    [{ disabled: true, expires: new Date(NOW).toISOString() }, 'disabled'],
    [{ maxVisits: 2, visits: 2 }, 'used'],
    [{ maxVisits: 2, visits: 1 }, 'active'],
  ])('%o is %s', (changes, state) => {
    expect(findState({ ...share, ...changes }, NOW)).toBe(state)
  })

  test('a sentence says what it opens to whom', () => {
    const language = new Language()
    expect(describeShare(language, { ...SHARE, password: 'x', maxVisits: 1 })).toBe(
      'Anyone with this link can view and download “report”, after entering the password, for one visit, with no expiry',
    )
    expect(describeShare(language, { ...SHARE, mode: 'drop' })).toMatch(/upload to “report”, and sees nothing in it/)
    expect(nameShare(language, { files: ['/a', '/b'] })).toBe('2 items')
    expect(nameShare(language, { files: ['/'] })).toBe('Home')
  })
})
