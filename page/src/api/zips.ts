import { call } from './client'

export interface ZipLink {
  url: string
  /** The task that makes the ZIP before it can be fetched; '' if it is made while it is sent. */
  task: string
}

/** The address of a ZIP of some entries of a folder; good for an hour. Throws Problem. */
export async function makeZipLink(folder: string, names: readonly string[], password: string): Promise<ZipLink> {
  const { url, task } = await call('post', '/api/fs/zip', { body: { dir: folder, names: [...names], password } })
  return { url, task: task?.id ?? '' }
}
