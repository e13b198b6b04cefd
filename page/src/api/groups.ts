import { call } from './client'
import type { GroupReq, GroupRow } from './schema'

/** Groups of users, for administrators. */

export type { GroupRow }
export type GroupFolder = GroupRow['folders'][number]

export async function listGroups(): Promise<GroupRow[]> {
  return (await call('get', '/api/admin/group/list')).content ?? []
}

export function getGroup(id: number): Promise<GroupRow> {
  return call('get', '/api/admin/group/get', { query: { id } })
}

/** A group without an id (0) is made. */
export async function saveGroup(group: GroupReq): Promise<void> {
  await call('post', group.id ? '/api/admin/group/update' : '/api/admin/group/create', { body: group })
}

export async function removeGroup(id: number): Promise<void> {
  await call('post', '/api/admin/group/delete', { query: { id } })
}
