import type { Component } from 'svelte'
import type { FileObject } from '../../../api/schema'
import type { Chosen, DialogName } from '../actions'

/** The properties of a dialog about a folder or its entries. It reports its changes by `tellFolderChanged`. */
export interface DialogProps {
  dialog: DialogName
  /** As it was when the dialog was asked for: what is selected later does not matter to it. */
  chosen: Chosen
  /** The chosen entries, being fetched from the moment the dialog was asked for: rows may move meanwhile. */
  entries: Promise<FileObject[]>
  onclose: () => void
}

export type DialogView = Component<DialogProps>
