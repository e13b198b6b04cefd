import { describe, expect, it } from 'vitest'
import { findKind } from '../src/parts/kinds'
import { decode, restore, toEdited } from '../src/views/view/decode'
import { findLabel, toVtt } from '../src/views/view/subtitles'

const bytes = (...values: number[]) => new Uint8Array(values)

describe('how a file is shown', () => {
  it.each([
    ['a.PNG', 0, 'image'],
    ['a.tar.gz', 0, 'archive'],
    ['README', 0, 'text'],
    ['a.constructor', 0, 'unknown'],
    ['a.rmvb', 2, 'video'],
    ['a.HEIC', 0, 'image'],
    ['a.nef', 0, 'image'],
    ['a.docx', 0, 'document'],
    ['a', 0, 'unknown'],
  ] as const)('%s of type %i as %s', (name, type, kind) => {
    expect(findKind(name, type, ['.gz'])).toBe(kind)
  })
})

describe('texts', () => {
  it('are read in the encoding they have, also when they are cut within a letter', () => {
    expect(decode(bytes(0x61, 0xe4, 0xb8), false)).toMatchObject({ text: 'a', encoding: 'utf-8' })
    expect(decode(bytes(0xd6, 0xd0), true)).toMatchObject({ text: '中', encoding: 'gb18030' })
    expect(decode(bytes(0xff, 0xfe, 0x61, 0), true)).toMatchObject({ text: 'a', encoding: 'utf-16le' })
    expect(decode(bytes(0x63, 0x61, 0x66, 0xe9), true)).toMatchObject({ text: 'café', encoding: 'windows-1252' })
    expect(decode(bytes(0x61, 0, 1), true)).toBeNull()
  })

  it('keep their line ends and their mark when they are edited', () => {
    const original = decode(bytes(0xef, 0xbb, 0xbf, 0x61, 13, 10), true)
    if (!original) throw new Error('no text')
    expect(restore(`${toEdited(original.text)}b`, original)).toBe('\ufeffa\r\nb')
  })
})

describe('subtitles', () => {
  it('of SRT and ASS become WebVTT', () => {
    expect(toVtt('a.srt', '1\r\n0:00:01,5 --> 00:00:02,000\r\nHi')).toBe(
      'WEBVTT\n\n1\n00:00:01.500 --> 00:00:02.000\nHi',
    )
    const ass = '[Events]\nFormat: Layer, Start, End, Text\nDialogue: 0,0:00:01.50,0:00:02.00,{\\b1}One, two\\N<three>'
    expect(toVtt('a.ass', ass)).toBe('WEBVTT\n\n00:00:01.500 --> 00:00:02.000\nOne, two\n&lt;three>\n')
  })

  it('are told apart by what their names have more than the film', () => {
    expect(findLabel('film.mkv', 'film.en.srt')).toBe('en')
    expect(findLabel('film.mkv', 'film.srt')).toBe('')
  })
})
