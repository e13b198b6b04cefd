/** What a line of a rule's `hide` does to a name, as far as the browser's expressions are those of the service. */

/** null for a line that cannot be tried here. */
export function compileLine(line: string): RegExp | null {
  const found = /^\(\?([ims]+)\)(.*)$/.exec(line) // the service takes flags at the beginning
  try {
    return found ? new RegExp(found[2] ?? '', `u${found[1]}`) : new RegExp(line, 'u')
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
