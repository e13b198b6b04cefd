import type { FileObject } from '../../api/schema'

/** The properties of a component that shows an entry. The list handles presses outside its controls, by `data-row`. */
export interface EntryProps {
  id: string
  index: number
  entry: FileObject | undefined
  address: string
  isSelected: boolean
  isFocused: boolean
  /** True if what is dragged would go into it. */
  isTarget: boolean
  oncheck: (event: MouseEvent) => void
  onmenu: (event: MouseEvent) => void
}
