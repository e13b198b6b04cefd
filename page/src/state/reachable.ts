const FIRST_PAUSE_MS = 1000
const LONGEST_PAUSE_MS = 30_000
const MAX_ANSWER_MS = 10_000 // a connection may be dead without a sign

/** True if the service can be reached at all. */
export async function isReachable(): Promise<boolean> {
  try {
    return (await fetch('/ping', { signal: AbortSignal.timeout(MAX_ANSWER_MS) })).ok
  } catch {
    return false
  }
}

/** Wait until the service can be reached: asked after pauses that become longer, and when the device is online again.
 *  False if `signal` ends the wait. */
export async function whenReachable(signal: AbortSignal): Promise<boolean> {
  for (let pause = FIRST_PAUSE_MS; !signal.aborted; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
    await sleep(pause, signal)
    if (!signal.aborted && (await isReachable())) return true
  }
  return false
}

function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const wake = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', wake)
      globalThis.removeEventListener?.('online', wake)
      resolve()
    }
    const timer = setTimeout(wake, milliseconds)
    signal.addEventListener('abort', wake)
    globalThis.addEventListener?.('online', wake)
  })
}
