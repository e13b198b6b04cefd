import type { ApiClient } from '../api/client'

/** The endings of names of archives that the service can read, fetched once at the first use. */
export class Archives {
  #endings = $state.raw<readonly string[]>([])
  #loading: Promise<readonly string[]> | undefined

  constructor(private readonly api: ApiClient) {}

  /** True if a name is that of an archive; false until the endings are known. */
  has(name: string): boolean {
    this.listEndings().catch(() => undefined) // the next question asks again
    const lower = name.toLowerCase()
    return this.#endings.some((ending) => lower.endsWith(ending) && lower.length > ending.length)
  }

  /** Return the endings, each with its dot. Throws Problem. */
  listEndings(): Promise<readonly string[]> {
    this.#loading ??= this.#load().catch((thrown) => {
      this.#loading = undefined
      throw thrown
    })
    return this.#loading
  }

  async #load(): Promise<readonly string[]> {
    this.#endings = await this.api.call('get', '/api/public/archive_extensions', { token: '' })
    return this.#endings
  }
}
