import type { FileObject } from '../../api/schema'

/** What shows one entry, in whatever form. Presses elsewhere on it are the list's: it carries `data-row`. */
export interface EntryProps {
  id: string
  index: number
  entry: FileObject | undefined
  address: string
  isSelected: boolean
  isFocused: boolean
  oncheck: (event: MouseEvent) => void
  onmenu: (event: MouseEvent) => void
}
