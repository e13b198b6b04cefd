import { get } from '../../api/files'
import { join } from '../../api/paths'
import { asProblem } from '../../api/problem'
import type { FileObject } from '../../api/schema'
import { copyText } from '../../parts/clipboard'
import { passwords } from '../../state/passwords'
import { formatAddress } from '../../state/router.svelte'
import { toasts } from '../../state/toasts.svelte'
import { t } from '../../text/language.svelte'

/** Say it when an action fails that has no dialog of its own. */
export function report(work: Promise<void>): void {
  work.catch((thrown) => {
    const problem = asProblem(thrown)
    toasts.show('failed', t().problems[problem.kind])
  })
}

export async function downloadFile(path: string): Promise<void> {
  const { raw_url, name } = await get(path, passwords.find(path))
  save(raw_url, name)
}

/** Have the browser download an address. */
export function save(address: string, name: string): void {
  const link = document.createElement('a')
  link.href = address
  link.download = name
  link.referrerPolicy = 'no-referrer'
  link.click()
}

/** One line for each. A file's link works without a token; a folder has only its address in the page. */
export async function copyLinks(folder: string, entries: Promise<FileObject[]>): Promise<void> {
  const links: string[] = []
  for (const { name, is_dir } of await entries) {
    const path = join(folder, name)
    const page = location.origin + formatAddress({ view: 'files', path })
    links.push(is_dir ? page : (await get(path, passwords.find(path))).raw_url)
  }
  await copyText(links.join('\n'))
  toasts.show('done', links.length > 1 ? t().changes.linksCopied(links.length) : t().files.linkCopied)
}
