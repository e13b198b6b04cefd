/** The order of storages is a number of each; equal ones stand by id. */
export interface Ordered {
  id: number
  order: number
}

const GAP = 10 // left between two, so that the next move has to change one storage alone

/** What to change so that the storages stand as listed: each change starts a storage anew, so as few as can be seen. */
export function findOrderChanges(wanted: readonly Ordered[], moved: number): Ordered[] {
  const at = wanted.findIndex((one) => one.id === moved)
  const before = wanted[at - 1]
  const after = wanted[at + 1]
  const alone = wanted[at]
  if (!alone || isInOrder(wanted)) return []
  const order = between(before?.order, after?.order)
  const tried = wanted.map((one) => (one.id === moved ? { ...one, order } : one))
  if (isInOrder(tried)) return [{ id: moved, order }]
  return wanted
    .map((one, index) => ({ id: one.id, order: (index + 1) * GAP, was: one.order }))
    .filter((one) => one.order !== one.was)
    .map(({ id, order }) => ({ id, order }))
}

function between(low: number | undefined, high: number | undefined): number {
  if (low === undefined) return (high ?? 0) - GAP
  if (high === undefined) return low + GAP
  return Math.floor((low + high) / 2)
}

function isInOrder(storages: readonly Ordered[]): boolean {
  return storages.every((one, index) => {
    const next = storages[index + 1]
    return !next || one.order < next.order || (one.order === next.order && one.id < next.id)
  })
}
