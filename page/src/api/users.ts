import { call } from './client'
import type { SshKeyRow, UserRow } from './schema'

/** Accounts, for administrators. */

export async function listUsers(): Promise<UserRow[]> {
  return (await call('get', '/api/admin/user/list')).content ?? []
}

export function getUser(id: number): Promise<UserRow> {
  return call('get', '/api/admin/user/get', { query: { id } })
}

/** A user without an id (0) is made; an empty password stays what it is. */
export async function saveUser(user: UserRow): Promise<void> {
  await call('post', user.id ? '/api/admin/user/update' : '/api/admin/user/create', { body: user })
}

export async function removeUser(id: number): Promise<void> {
  await call('post', '/api/admin/user/delete', { query: { id } })
}

export async function listKeys(uid: number): Promise<SshKeyRow[]> {
  return (await call('get', '/api/admin/user/sshkey/list', { query: { uid } })).content ?? []
}

export async function removeKey(id: number): Promise<void> {
  await call('post', '/api/admin/user/sshkey/delete', { query: { id } })
}
