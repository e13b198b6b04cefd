/** The effect of a line of a rule's `hide` on a name, as far as the browser and the service have the same expressions. */

/** null for a line that cannot be tried here. */
export function compileLine(line: string): RegExp | null {
  const match = /^\(\?([ims]+)\)(.*)$/.exec(line) // the service takes flags at the beginning
  try {
    return match ? new RegExp(match[2] ?? '', `u${match[1]}`) : new RegExp(line, 'u')
  } catch {
    try {
      return new RegExp(line)
    } catch {
      return null
    }
  }
}

export function splitLines(hide: string): string[] {
  return hide.split('\n').filter((line) => line.trim() !== '')
}

export function isHidden(name: string, lines: readonly string[]): boolean {
  return lines.some((line) => compileLine(line)?.test(name))
}
