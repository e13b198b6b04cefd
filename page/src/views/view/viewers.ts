import type { Component } from 'svelte'
import type { SingleObject } from '../../api/schema'
import { findReader, type Kind } from '../../parts/kinds'

/** As what it is, as the text it is made of, or as a text that is edited. */
export type Mode = 'shown' | 'source' | 'edit'

export interface ViewerProps {
  path: string
  file: SingleObject
  kind: Kind
  mode: Mode
  /** The file was changed here. */
  onchange: () => void
}

type Viewer = Component<ViewerProps, object, 'mode'>

const VIEWERS: Record<Kind, () => Promise<{ default: Viewer }>> = {
  archive: () => import('./ArchiveView.svelte'),
  audio: () => import('./AudioView.svelte'),
  document: () => import('./DocumentView.svelte'),
  font: () => import('./FontView.svelte'),
  html: () => import('./TextView.svelte'),
  image: () => import('./ImageView.svelte'),
  markdown: () => import('./TextView.svelte'),
  pdf: () => import('./PdfView.svelte'),
  text: () => import('./TextView.svelte'),
  unknown: () => import('./UnknownView.svelte'),
  video: () => import('./VideoView.svelte'),
}

/** The texts of a file and the field to edit them are one view; a picture that a reader decodes is read first. */
export function loadViewer(name: string, kind: Kind, mode: Mode): Promise<{ default: Viewer }> {
  if (mode !== 'shown') return VIEWERS.text()
  return VIEWERS[kind === 'image' && findReader(name) ? 'document' : kind]()
}
