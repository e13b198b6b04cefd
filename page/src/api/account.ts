import type { ApiClient } from './client'
import type { Enrolment, SshKeyRow } from './schema'

/** One's own account. */

export function beginSecondFactor(api: ApiClient): Promise<Enrolment> {
  return api.call('post', '/api/auth/2fa/generate')
}

/** `present` is a code of the second factor that is on, '' where none is. */
export async function setSecondFactor(api: ApiClient, secret: string, code: string, present: string): Promise<void> {
  await api.call('post', '/api/auth/2fa/verify', { body: { secret, code }, headers: { 'otp-code': present } })
}

/** For administrators, who may switch it off: their own as well, with a code of it. */
export async function cancelSecondFactor(api: ApiClient, id: number, present = ''): Promise<void> {
  await api.call('post', '/api/admin/user/cancel_2fa', { query: { id }, headers: { 'otp-code': present } })
}

export async function listOwnKeys(api: ApiClient): Promise<SshKeyRow[]> {
  return (await api.call('get', '/api/me/sshkey/list')).content ?? []
}

export async function addOwnKey(api: ApiClient, title: string, key: string): Promise<void> {
  await api.call('post', '/api/me/sshkey/add', { body: { title, key } })
}

export async function removeOwnKey(api: ApiClient, id: number): Promise<void> {
  await api.call('post', '/api/me/sshkey/delete', { query: { id } })
}
