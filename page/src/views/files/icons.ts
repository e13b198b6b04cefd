import type { IconName } from '../../parts/Icon.svelte'

const ICONS: IconName[] = ['file', 'folder', 'video', 'audio', 'text', 'image'] // by type code

/** The drawing that stands for an entry. */
export function findIcon(entry: { is_dir: boolean; type: number } | undefined): IconName {
  return entry?.is_dir ? 'folder' : (ICONS[entry?.type ?? 0] ?? 'file')
}
