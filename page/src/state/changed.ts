type Listener = (names: readonly string[]) => void

const listeners = new Map<string, Set<Listener>>()

/** Be told when the page has changed what is in a folder; returns what ends it. `names` are new there, or none. */
export function onFolderChanged(path: string, listener: Listener): () => void {
  const own = listeners.get(path) ?? new Set()
  listeners.set(path, own.add(listener))
  return () => {
    own.delete(listener)
    if (own.size === 0) listeners.delete(path)
  }
}

/** Tell that the page has changed what is in a folder: it is listed again where it is in view. */
export function tellFolderChanged(path: string, names: readonly string[] = []): void {
  for (const listener of listeners.get(path) ?? []) listener(names)
}
