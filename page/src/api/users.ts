import type { ApiClient } from './client'
import type { SshKeyRow, UserRow } from './schema'

/** Accounts, for administrators. */

export async function listUsers(api: ApiClient): Promise<UserRow[]> {
  return (await api.call('get', '/api/admin/user/list')).content ?? []
}

export function getUser(api: ApiClient, id: number): Promise<UserRow> {
  return api.call('get', '/api/admin/user/get', { query: { id } })
}

/** A user without an id (0) is made; an empty password stays what it is. */
export async function saveUser(api: ApiClient, user: UserRow): Promise<void> {
  await api.call('post', user.id ? '/api/admin/user/update' : '/api/admin/user/create', { body: user })
}

export async function removeUser(api: ApiClient, id: number): Promise<void> {
  await api.call('post', '/api/admin/user/delete', { query: { id } })
}

export async function listKeys(api: ApiClient, uid: number): Promise<SshKeyRow[]> {
  return (await api.call('get', '/api/admin/user/sshkey/list', { query: { uid } })).content ?? []
}

export async function removeKey(api: ApiClient, id: number): Promise<void> {
  await api.call('post', '/api/admin/user/sshkey/delete', { query: { id } })
}
