/**
 * A pattern and a template as the service understands them (RE2, Go's templates), as a function that replaces all matches.
 * Throws SyntaxError for syntax that only one of the two engines has, unless the service refuses it.
 */
export function compilePattern(pattern: string, template: string): (text: string) => string {
  const expression = translate(pattern)
  return (text) => text.replace(expression, (...match) => expand(template, match))
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
function expand(template: string, match: unknown[]): string {
  const last = match.at(-1)
  const named = (typeof last === 'object' ? last : undefined) as Record<string, string> | undefined
  const groups = match.slice(
    0,
    match.findIndex((group) => typeof group === 'number'),
  )
  return template.replace(/\$(?:(\$)|\{(\w+)\}|(\w+))/g, (_, dollar, braced, plain) => {
    if (dollar) return '$'
    const name: string = braced ?? plain
    return String((/^\d+$/.test(name) ? groups[Number(name)] : named?.[name]) ?? '')
  })
}
