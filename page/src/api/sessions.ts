import type { ApiClient } from './client'
import type { SessionRow } from './schema'

/** Open sessions: each is a sign-in with a device, an address and a last use. */

export type { SessionRow }

export function listOwnSessions(api: ApiClient): Promise<SessionRow[]> {
  return api.call('get', '/api/me/sessions')
}

export async function endOwnSession(api: ApiClient, id: string): Promise<void> {
  await api.call('post', '/api/me/sessions/evict', { body: { session_id: id } })
}

/** All but the one that asks. */
export async function endOtherSessions(api: ApiClient): Promise<void> {
  await api.call('post', '/api/me/sessions/evict_others')
}

/** The sessions of a user, for administrators. */
export function listSessionsOf(api: ApiClient, uid: number): Promise<SessionRow[]> {
  return api.call('get', '/api/admin/session/list', { query: { uid: String(uid) } })
}

export async function endSession(api: ApiClient, id: string): Promise<void> {
  await api.call('post', '/api/admin/session/evict', { body: { session_id: id } })
}

export async function endSessionsOf(api: ApiClient, uid: number): Promise<void> {
  await api.call('post', '/api/admin/session/evict_all', { query: { uid } })
}
