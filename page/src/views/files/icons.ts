import type { IconName } from '../../parts/Icon.svelte'
import type { ViewKind } from '../../state/viewkind.svelte'

/** The drawings of the layouts of a folder. */
export const VIEW_ICONS: Record<ViewKind, IconName> = { list: 'list', compact: 'compact', grid: 'grid' }
