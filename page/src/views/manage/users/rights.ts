import { RIGHTS, ROLES } from '../../../api/enums'
import type { Right } from '../../../state/session.svelte'
import type { Language } from '../../../text/language.svelte'

/** The rights as a form groups them. */
export const RIGHT_GROUPS = {
  files: ['write', 'rename', 'move', 'copy', 'delete', 'offlineDownload', 'seeHidden', 'skipPassword'],
  sharing: ['share', 'customShareId'],
  archives: ['readArchives', 'decompress'],
  protocols: ['webdavRead', 'webdavManage', 'ftpRead', 'ftpManage'],
} as const satisfies Record<string, readonly Right[]>

export const ALL_RIGHTS: readonly Right[] = Object.values(RIGHT_GROUPS).flat()

export function hasRight(permission: number, right: Right): boolean {
  return (permission & RIGHTS[right]) !== 0
}

export function setRight(permission: number, right: Right, isOn: boolean): number {
  return isOn ? permission | RIGHTS[right] : permission & ~RIGHTS[right]
}

/** All rights of the form on or off; other bits stay. */
export function setAll(permission: number, isOn: boolean): number {
  return ALL_RIGHTS.reduce((sum, right) => setRight(sum, right, isOn), permission)
}

export function formatRole({ t }: Language, role: number): string {
  const { roles } = t().manage.users
  return role === ROLES.guest || role === ROLES.admin ? roles[role] : roles[0]
}

/** Rights in words. A group of which all are there has one word. `none`: the words for no right. */
export function describeRights({ t, code }: Language, permission: number, none: string): string {
  const { users } = t().manage
  if (ALL_RIGHTS.every((right) => hasRight(permission, right))) return users.mayAll
  const parts = Object.entries(RIGHT_GROUPS).map(([group, rights]) => {
    const present = rights.filter((right) => hasRight(permission, right))
    if (present.length === rights.length) return users.allOf(users.rightGroups[group as keyof typeof RIGHT_GROUPS])
    const names = present.map((right) => users.rightNames[right])
    return new Intl.ListFormat(code, { type: 'unit' }).format(names)
  })
  return parts.filter(Boolean).join(' · ') || none
}
