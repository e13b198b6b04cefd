import { call } from './client'

/** The address of a ZIP of some entries of a folder, which the service makes while it is sent; good for an hour.
 *  Throws Problem. */
export async function makeZipLink(folder: string, names: readonly string[], password: string): Promise<string> {
  return (await call('post', '/api/fs/zip', { body: { dir: folder, names: [...names], password } })).url
}
