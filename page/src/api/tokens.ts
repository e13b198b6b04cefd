import type { ApiClient } from './client'
import type { TokenReq, TokenRow } from './schema'

/** Tokens: programs sign in with them, each with a scope. */

export type { TokenRow }
export const TOKEN_MODES = ['both', 'read', 'write'] as const
export const TOKEN_PROTOCOLS = ['api', 'webdav', 'sftp', 'mcp'] as const
export type TokenMode = (typeof TOKEN_MODES)[number]
export type TokenProtocol = (typeof TOKEN_PROTOCOLS)[number]

export async function listTokens(api: ApiClient): Promise<TokenRow[]> {
  return (await api.call('get', '/api/me/token/list')).content ?? []
}

/** The text of the token, which is told this once. `code`: a code of the second factor, '' without one. */
export async function createToken(api: ApiClient, token: TokenReq, code: string): Promise<string> {
  return (await api.call('post', '/api/me/token/create', { body: token, headers: { 'otp-code': code } })).token
}

export async function removeToken(api: ApiClient, id: number): Promise<void> {
  await api.call('post', '/api/me/token/delete', { query: { id } })
}

/** The tokens of a user, for administrators. */
export async function listTokensOf(api: ApiClient, uid: number): Promise<TokenRow[]> {
  return (await api.call('get', '/api/admin/user/token/list', { query: { uid } })).content ?? []
}

export async function removeTokenOf(api: ApiClient, id: number): Promise<void> {
  await api.call('post', '/api/admin/user/token/delete', { query: { id } })
}
