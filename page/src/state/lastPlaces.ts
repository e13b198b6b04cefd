/** The last chosen folder of each user, in memory only: the next choice begins there. */
export class LastPlaces {
  #known = new Map<string, string>()

  find(username: string): string | undefined {
    return this.#known.get(username)
  }

  keep(username: string, path: string): void {
    this.#known.set(username, path)
  }
}
