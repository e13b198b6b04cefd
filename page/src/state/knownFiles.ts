const MAX_KNOWN_FILES = 10_000

const known = new Set<string>()

/** Remember that a path of the tree was listed as a file: opening it need not ask first whether it is a folder. */
export function rememberFile(path: string): void {
  if (known.size >= MAX_KNOWN_FILES) known.clear()
  known.add(path)
}

export function isKnownFile(path: string): boolean {
  return known.has(path)
}

export function forgetFile(path: string): void {
  known.delete(path)
}
