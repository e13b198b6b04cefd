import { call } from '../api/client'

/** The extensions of archives that the service can unpack, fetched once at the first use. */
class Archives {
  #extensions = $state.raw<readonly string[]>([])
  #isAsked = false

  /** False until the extensions are known. */
  has(name: string): boolean {
    if (!this.#isAsked) void this.#load()
    const lower = name.toLowerCase()
    return this.#extensions.some((extension) => lower.endsWith(extension) && lower.length > extension.length)
  }

  async #load(): Promise<void> {
    this.#isAsked = true
    try {
      this.#extensions = await call('get', '/api/public/archive_extensions')
    } catch {
      this.#isAsked = false // the next question asks again
    }
  }
}

export const archives = new Archives()
