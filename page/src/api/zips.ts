import type { ApiClient } from './client'
import { Problem } from './problem'

export interface ZipLink {
  url: string
  /** The task that makes the ZIP before it can be fetched; '' if it is made while it is sent. */
  task: string
}

/** The address of a ZIP of some entries of a folder, or of the folder if there are none; good for an hour, in a share as
 *  long as the share. Throws Problem. */
export async function makeZipLink(
  api: ApiClient,
  folder: string,
  names: readonly string[],
  password: string,
): Promise<ZipLink> {
  const { url, task } = await api.call('post', '/api/fs/zip', { body: { dir: folder, names: [...names], password } })
  return { url, task: task?.id ?? '' }
}

/** Wait until a ZIP can be fetched that a task makes for a visitor of a share, who cannot see the task; or until
 *  `goesOn` says no. Throws Problem when the task has failed. */
export async function waitForZip(address: string, goesOn: () => boolean): Promise<void> {
  while (goesOn()) {
    const answer = await ask(address)
    const isReady = answer.type === 'opaqueredirect' || answer.status < 400
    if (isReady) return
    const seconds = answer.headers.get('retry-after')
    if (answer.status !== 404 || seconds === null) throw new Problem('broken', '', answer.status)
    await new Promise((resolve) => setTimeout(resolve, Number(seconds) * 1000))
  }
}

async function ask(address: string): Promise<Response> {
  try {
    return await fetch(address, {
      method: 'HEAD',
      redirect: 'manual',
      cache: 'no-store',
      referrerPolicy: 'no-referrer',
    })
  } catch {
    throw new Problem('offline')
  }
}
