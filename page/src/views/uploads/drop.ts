import type { Attachment } from 'svelte/attachments'
import { baseName } from '../../api/paths'
import type { Stores } from '../../state/stores'
import { tellOffline } from './actions'
import './drop.css'

/** Files and folders that are dropped on the element are put into the folder. */
export function dropUploads(stores: Stores, folder: string, name = baseName(folder)): Attachment<HTMLElement> {
  return (element) => {
    const ending = new AbortController()
    const { signal } = ending
    const stopPrefetch = stores.uploadsLoader.prefetch() // what is dropped during an outage waits for its end

    function allow(event: DragEvent) {
      if (!hasFiles(event)) return
      event.preventDefault()
      if (event.dataTransfer) event.dataTransfer.dropEffect = 'copy'
      const { t } = stores.language
      element.dataset.drop = t().uploads.dropInto(name || t().files.home)
    }

    function leave({ relatedTarget }: DragEvent) {
      if (!(relatedTarget instanceof Node && element.contains(relatedTarget))) delete element.dataset.drop
    }

    function take(event: DragEvent) {
      delete element.dataset.drop
      if (!hasFiles(event)) return
      event.preventDefault()
      // now: what was dropped is gone when the handler returns
      const items = [...(event.dataTransfer?.items ?? [])].filter((item) => item.kind === 'file')
      const dropped = items.map((item) => item.webkitGetAsEntry() ?? item.getAsFile()).filter((item) => item !== null)
      void stores.uploadsLoader.load().then(
        ({ addDropped, queue }) => addDropped(stores, queue, folder, dropped),
        () => tellOffline(stores),
      )
    }

    element.addEventListener('dragenter', allow, { signal })
    element.addEventListener('dragover', allow, { signal })
    element.addEventListener('dragleave', leave, { signal })
    element.addEventListener('drop', take, { signal })
    window.addEventListener('dragover', refuse, { signal })
    window.addEventListener('drop', refuse, { signal })
    return () => {
      stopPrefetch()
      delete element.dataset.drop
      ending.abort()
    }
  }
}

function hasFiles({ dataTransfer }: DragEvent): boolean {
  return dataTransfer?.types.includes('Files') ?? false
}

/** Beside the folder nothing is taken; the browser would leave the page and open the file. */
function refuse(event: DragEvent): void {
  if (event.defaultPrevented || !hasFiles(event)) return
  event.preventDefault()
  if (event.dataTransfer) event.dataTransfer.dropEffect = 'none'
}
