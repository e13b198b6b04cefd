const KEY = 'mangrove.positions'
const MAX_POSITIONS = 100 // the oldest one goes
const MIN_SECONDS = 30 // a film that was left before begins anew

/** The positions at which films were left on this device, and whether the next sound plays by itself. */
export class Playback {
  /** True if the sound before played to its end. */
  isContinued = false

  /** The seconds at which a film was left; 0 for its beginning. */
  find(path: string): number {
    return new Map(this.#read()).get(path) ?? 0
  }

  /** Store where a film was left. A film near its end begins anew. */
  store(path: string, seconds: number, duration: number): void {
    const isOver = seconds < MIN_SECONDS || seconds > duration - MIN_SECONDS
    const others = this.#read().filter(([other]) => other !== path)
    const positions = isOver ? others : [...others, [path, Math.floor(seconds)]].slice(-MAX_POSITIONS)
    localStorage.setItem(KEY, JSON.stringify(positions))
  }

  /** Forget all positions, which name files of the user. */
  clear(): void {
    this.isContinued = false
    localStorage.removeItem(KEY)
  }

  #read(): [string, number][] {
    try {
      const positions: unknown = JSON.parse(localStorage.getItem(KEY) ?? '[]')
      return Array.isArray(positions) ? positions.filter((entry) => Array.isArray(entry) && entry.length === 2) : []
    } catch {
      return []
    }
  }
}
