/**
 * A pattern and a template as the service understands them (RE2, Go's templates), as a function that replaces all matches.
 * What only one of the two engines knows throws SyntaxError here, or is refused there. Throws SyntaxError.
 */
export function compilePattern(pattern: string, template: string): (text: string) => string {
  const expression = translate(pattern)
  return (text) => text.replace(expression, (...found) => expand(template, found))
}

/** RE2's spelling as JavaScript's: named groups, and flags at the beginning. */
function translate(pattern: string): RegExp {
  const flags = /^\(\?([ims]+)\)/.exec(pattern)
  const body = pattern.slice(flags?.[0].length ?? 0).replaceAll('(?P<', '(?<')
  const all = `g${flags?.[1] ?? ''}`
  try {
    return new RegExp(body, `${all}u`)
  } catch {
    return new RegExp(body, all) // escapes of letters that need none
  }
}

/** Go's templates: `$1`, `$name`, `${name}`, `$$`; a name is as long as it can be, an unknown one is empty. */
function expand(template: string, found: unknown[]): string {
  const last = found.at(-1)
  const named = (typeof last === 'object' ? last : undefined) as Record<string, string> | undefined
  const groups = found.slice(
    0,
    found.findIndex((one) => typeof one === 'number'),
  )
  return template.replace(/\$(?:(\$)|\{(\w+)\}|(\w+))/g, (_, dollar, braced, plain) => {
    if (dollar) return '$'
    const name: string = braced ?? plain
    return String((/^\d+$/.test(name) ? groups[Number(name)] : named?.[name]) ?? '')
  })
}
