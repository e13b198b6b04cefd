import { baseName } from '../../api/paths'
import { findEnding } from '../../parts/kinds'

const ENDINGS = ['vtt', 'srt', 'ass', 'ssa']

export function isSubtitle(name: string): boolean {
  return ENDINGS.includes(findEnding(name))
}

/** Return the label of a subtitle: `en` of `film.en.srt`; '' if it has none. */
export function findLabel(film: string, name: string): string {
  const stem = film.slice(0, film.lastIndexOf('.'))
  const rest = baseName(name).slice(0, name.lastIndexOf('.'))
  return rest.startsWith(stem) ? rest.slice(stem.length).replace(/^[.\s_-]+/, '') : rest
}

/** A subtitle as WebVTT, which is what browsers show. Of ASS only the words and their times. */
export function toVtt(name: string, text: string): string {
  const lines = text.replace(/^\ufeff/, '').replace(/\r\n?/g, '\n')
  const ending = findEnding(name)
  if (ending === 'vtt') return lines
  return `WEBVTT\n\n${ending === 'srt' ? convertTimes(lines) : readDialogue(lines)}`
}

function convertTimes(srt: string): string {
  return srt.replace(/^.*-->.*$/gm, (line) =>
    line.replace(/(\d+):(\d+):(\d+)[,.](\d+)/g, (_, hours, minutes, seconds, rest) =>
      [hours.padStart(2, '0'), minutes, `${seconds}.${rest.padEnd(3, '0')}`].join(':'),
    ),
  )
}

function readDialogue(ass: string): string {
  const cues: string[] = []
  let fields: string[] = []
  let isEvents = false
  for (const line of ass.split('\n')) {
    if (line.startsWith('[')) isEvents = line.trim().toLowerCase() === '[events]'
    else if (isEvents && line.startsWith('Format:')) fields = split(line, Number.POSITIVE_INFINITY)
    else if (isEvents && line.startsWith('Dialogue:')) cues.push(makeCue(fields, split(line, fields.length)))
  }
  return cues.join('\n')
}

/** The values of a line behind its name; the last one may have commas of its own. */
function split(line: string, count: number): string[] {
  const values = line.slice(line.indexOf(':') + 1).split(',')
  const last = values.slice(count - 1).join(',')
  return [...values.slice(0, Math.min(count - 1, values.length)), ...(count <= values.length ? [last] : [])].map(
    (part) => part.trim(),
  )
}

function makeCue(fields: readonly string[], values: readonly string[]): string {
  const value = (name: string) => values[fields.indexOf(name)] ?? ''
  const words = value('Text')
    .replace(/\{[^}]*\}/g, '')
    .replace(/\\[Nn]/g, '\n')
    .replace(/\\h/g, ' ')
  const shown = words
    .replace(/&/g, '&amp;')
    .replace(/</g, '&lt;')
    .replace(/\n{2,}/g, '\n')
  return `${toTime(value('Start'))} --> ${toTime(value('End'))}\n${shown}\n`
}

/** `1:02:03.45` with hours of two digits and milliseconds. */
function toTime(time: string): string {
  const [hours = '0', minutes = '0', seconds = '0'] = time.split(':')
  return `${hours.padStart(2, '0')}:${minutes.padStart(2, '0')}:${Number(seconds).toFixed(3).padStart(6, '0')}`
}
