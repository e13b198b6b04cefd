import { fetchStart, findAddress } from '../api/bytes'
import { get } from '../api/files'
import { join } from '../api/paths'
import type { Stores } from './stores'

const MAX_README_BYTES = 256 * 1024
const README = /^readme(\.(md|markdown))?$/i

/** The text of the README file among the names of a folder; '' if there is none, or the setting does not want it. */
export async function readReadme(
  { api, passwords, session, site }: Stores,
  folder: string,
  names: readonly string[],
): Promise<string> {
  const name = site.isOn('readme_autorender') ? names.find((other) => README.test(other)) : undefined
  if (name === undefined) return ''
  try {
    const path = join(folder, name)
    const file = await get(api, path, passwords.find(path))
    if (file.is_dir || file.size > MAX_README_BYTES) return ''
    const { bytes } = await fetchStart(findAddress(session.makeAbsolute(path), file), MAX_README_BYTES)
    return new TextDecoder().decode(bytes)
  } catch {
    return ''
  }
}
