import type { Component } from 'svelte'
import type { ViewName } from '../state/routes'
import type { Language } from '../text/language.svelte'

type LoadView = (language: Language) => Promise<{ default: Component<Record<string, never>> }>

/** The views of the routes that are fetched when they are needed. */
export const VIEWS: { [View in ViewName]?: LoadView } = {
  links: () => import('./links/LinksView.svelte'),
  manage: (language) => language.withLateTexts(import('./manage/ManageView.svelte')),
  profile: (language) => language.withLateTexts(import('./profile/ProfileView.svelte')),
  trash: () => import('./trash/TrashView.svelte'),
}
