/** The order of storages is a number of each; equal ones stand by id. */
export interface Ordered {
  id: number
  order: number
}

const GAP = 10 // left between two, so that the next move has to change one storage alone

/** Return the fewest changes that give the storages the listed order: each change restarts a storage. */
export function findOrderChanges(ordered: readonly Ordered[], moved: number): Ordered[] {
  const at = ordered.findIndex((storage) => storage.id === moved)
  const before = ordered[at - 1]
  const after = ordered[at + 1]
  const alone = ordered[at]
  if (!alone || isInOrder(ordered)) return []
  const order = between(before?.order, after?.order)
  const tried = ordered.map((storage) => (storage.id === moved ? { ...storage, order } : storage))
  if (isInOrder(tried)) return [{ id: moved, order }]
  return ordered
    .map((storage, index) => ({ id: storage.id, order: (index + 1) * GAP, was: storage.order }))
    .filter((storage) => storage.order !== storage.was)
    .map(({ id, order }) => ({ id, order }))
}

function between(low: number | undefined, high: number | undefined): number {
  if (low === undefined) return (high ?? 0) - GAP
  if (high === undefined) return low + GAP
  return Math.floor((low + high) / 2)
}

function isInOrder(storages: readonly Ordered[]): boolean {
  return storages.every((storage, index) => {
    const next = storages[index + 1]
    return !next || storage.order < next.order || (storage.order === next.order && storage.id < next.id)
  })
}
