import type { Right } from '../../../state/session.svelte'
import { t } from '../../../text/language.svelte'
import { ALL_RIGHTS, hasRight, RIGHT_GROUPS } from '../users/rights'

/** The rights that a group can give for a folder: the others are about no path. */
export const FOLDER_RIGHTS: readonly Right[] = [...RIGHT_GROUPS.files, 'share', ...RIGHT_GROUPS.archives]

/** Rights in words. */
export function formatRights(permission: number): string {
  const rights = ALL_RIGHTS.filter((right) => hasRight(permission, right))
  if (rights.length === 0) return t().manage.groups.noRights
  if (rights.length === ALL_RIGHTS.length) return t().manage.users.mayAll
  const names = rights.map((right) => t().manage.users.rightNames[right])
  return new Intl.ListFormat(document.documentElement.lang).format(names)
}
