import type { MenuItem } from '../../parts/menu'
import type { Stores } from '../../state/stores'

/** Actions that upload files of this device. */
export function listUploadActions(stores: Stores, folder: string): MenuItem[] {
  const text = stores.language.t().uploads
  const items: MenuItem[] = [{ text: text.pickFiles, icon: 'upload', run: () => void pick(stores, folder, false) }]
  if ('webkitdirectory' in HTMLInputElement.prototype) {
    items.push({ text: text.pickFolder, icon: 'uploadFolder', run: () => void pick(stores, folder, true) })
  }
  return items
}

/** Let the user choose files of this device for a folder. */
export function pickFiles(stores: Stores, folder: string): void {
  void pick(stores, folder, false)
}

/** Let the user choose files, or a folder with all that is in it: the browser does not tell of empty folders. */
async function pick(stores: Stores, folder: string, isFolder: boolean): Promise<void> {
  const input = document.createElement('input')
  input.type = 'file'
  input.multiple = true
  input.webkitdirectory = isFolder
  input.hidden = true
  input.oncancel = () => input.remove()
  input.onchange = async () => {
    input.remove()
    const files = [...(input.files ?? [])]
    await stores.uploadsLoader.load().then(
      ({ addPicked, queue }) => addPicked(queue, folder, files),
      () => tellOffline(stores),
    )
  }
  document.body.append(input)
  input.click()
}

export function tellOffline({ language, toasts }: Stores): void {
  toasts.show('failed', language.t().problems.offline)
}
