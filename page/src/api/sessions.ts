import { call } from './client'
import type { SessionRow } from './schema'

/** Open sessions: each is a sign-in with a device, an address and a last use. */

export type { SessionRow }

export function listOwnSessions(): Promise<SessionRow[]> {
  return call('get', '/api/me/sessions')
}

export async function endOwnSession(id: string): Promise<void> {
  await call('post', '/api/me/sessions/evict', { body: { session_id: id } })
}

/** All but the one that asks. */
export async function endOtherSessions(): Promise<void> {
  await call('post', '/api/me/sessions/evict_others')
}

/** The sessions of a user, for administrators. */
export function listSessionsOf(uid: number): Promise<SessionRow[]> {
  return call('get', '/api/admin/session/list', { query: { uid: String(uid) } })
}

export async function endSession(id: string): Promise<void> {
  await call('post', '/api/admin/session/evict', { body: { session_id: id } })
}

export async function endSessionsOf(uid: number): Promise<void> {
  await call('post', '/api/admin/session/evict_all', { query: { uid } })
}
