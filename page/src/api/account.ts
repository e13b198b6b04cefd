import { call } from './client'
import type { Enrolment, SshKeyRow } from './schema'

/** One's own account. */

export function beginSecondFactor(): Promise<Enrolment> {
  return call('post', '/api/auth/2fa/generate')
}

/** `present` is a code of the second factor that is on, '' where none is. */
export async function setSecondFactor(secret: string, code: string, present: string): Promise<void> {
  await call('post', '/api/auth/2fa/verify', { body: { secret, code }, headers: { 'otp-code': present } })
}

/** For administrators, who may switch it off: their own as well, with a code of it. */
export async function cancelSecondFactor(id: number, present = ''): Promise<void> {
  await call('post', '/api/admin/user/cancel_2fa', { query: { id }, headers: { 'otp-code': present } })
}

export async function listOwnKeys(): Promise<SshKeyRow[]> {
  return (await call('get', '/api/me/sshkey/list')).content ?? []
}

export async function addOwnKey(title: string, key: string): Promise<void> {
  await call('post', '/api/me/sshkey/add', { body: { title, key } })
}

export async function removeOwnKey(id: number): Promise<void> {
  await call('post', '/api/me/sshkey/delete', { query: { id } })
}
