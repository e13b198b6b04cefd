import type { MenuItem } from '../../parts/menu'
import { toasts } from '../../state/toasts.svelte'
import { t } from '../../text/language.svelte'
import { uploadsLoader } from './loader.svelte'

/** Actions that upload files of this device. */
export function listUploadActions(folder: string): MenuItem[] {
  const text = t().uploads
  const items: MenuItem[] = [{ text: text.pickFiles, icon: 'upload', run: () => void pick(folder, false) }]
  if ('webkitdirectory' in HTMLInputElement.prototype) {
    items.push({ text: text.pickFolder, icon: 'uploadFolder', run: () => void pick(folder, true) })
  }
  return items
}

/** Let the user choose files of this device for a folder. */
export function pickFiles(folder: string): void {
  void pick(folder, false)
}

/** Let the user choose files, or a folder with all that is in it: the browser does not tell of empty folders. */
async function pick(folder: string, isFolder: boolean): Promise<void> {
  const input = document.createElement('input')
  input.type = 'file'
  input.multiple = true
  input.webkitdirectory = isFolder
  input.hidden = true
  input.oncancel = () => input.remove()
  input.onchange = async () => {
    input.remove()
    const files = [...(input.files ?? [])]
    await uploadsLoader.load().then(({ addPicked }) => addPicked(folder, files), tellOffline)
  }
  document.body.append(input)
  input.click()
}

export function tellOffline(): void {
  toasts.show('failed', t().problems.offline)
}
