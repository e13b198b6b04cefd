import type { Right } from '../../../state/session.svelte'
import { RIGHT_GROUPS } from '../users/rights'

/** The rights that a group can give for a folder: the others are about no path. */
export const FOLDER_RIGHTS: readonly Right[] = [...RIGHT_GROUPS.files, 'share', ...RIGHT_GROUPS.archives]
