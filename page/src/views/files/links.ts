import { get } from '../../api/files'
import { asProblem } from '../../api/problem'
import { makeZipLink, waitForZip } from '../../api/zips'
import type { Stores } from '../../state/stores'

/** Say it when an action fails that has no dialog of its own. */
export function report({ language, toasts }: Stores, work: Promise<void>): void {
  work.catch((thrown) => {
    const problem = asProblem(thrown)
    toasts.show('failed', language.t().problems[problem.kind])
  })
}

export async function downloadFile({ api, passwords }: Stores, path: string): Promise<void> {
  const { raw_url, name } = await get(api, path, passwords.find(path))
  save(raw_url, name)
}

/** Download a folder of a share as a ZIP, which may have to be made first. */
export async function downloadShared(
  { api, language, passwords, toasts }: Stores,
  path: string,
  name: string,
): Promise<void> {
  const { url, task } = await makeZipLink(api, path, [], passwords.find(path))
  if (task) {
    toasts.show('done', language.t().packing.prepared)
    await waitForZip(url, () => true)
  }
  save(url, `${name}.zip`)
}

/** Have the browser download an address. */
export function save(address: string, name: string): void {
  const link = document.createElement('a')
  link.href = address
  link.download = name
  link.referrerPolicy = 'no-referrer'
  link.click()
}
