import type { ApiClient } from './client'
import type { GroupReq, GroupRow } from './schema'

/** Groups of users, for administrators. */

export type { GroupRow }
export type GroupFolder = GroupRow['folders'][number]

export async function listGroups(api: ApiClient): Promise<GroupRow[]> {
  return (await api.call('get', '/api/admin/group/list')).content ?? []
}

export function getGroup(api: ApiClient, id: number): Promise<GroupRow> {
  return api.call('get', '/api/admin/group/get', { query: { id } })
}

/** A group without an id (0) is made. */
export async function saveGroup(api: ApiClient, group: GroupReq): Promise<void> {
  await api.call('post', group.id ? '/api/admin/group/update' : '/api/admin/group/create', { body: group })
}

export async function removeGroup(api: ApiClient, id: number): Promise<void> {
  await api.call('post', '/api/admin/group/delete', { query: { id } })
}
