import type { ApiClient } from './client'
import type { MetaReq } from './schema'

/** A rule of the interface, with all that it may leave out. */
export type Rule = Required<MetaReq>

export const EMPTY_RULE: Rule = {
  id: 0,
  path: '',
  password: '',
  p_sub: true,
  write: false,
  w_sub: true,
  hide: '',
  h_sub: true,
  readme: '',
  r_sub: false,
  header: '',
  header_sub: false,
  read_groups: null,
  read_users: null,
  read_users_sub: true,
  write_groups: null,
  write_users: null,
  write_users_sub: true,
}

export async function listRules(api: ApiClient): Promise<Rule[]> {
  const rows = (await api.call('get', '/api/admin/meta/list')).content ?? []
  return rows.map((row) => ({ ...EMPTY_RULE, ...row }))
}

export async function getRule(api: ApiClient, id: number): Promise<Rule> {
  return { ...EMPTY_RULE, ...(await api.call('get', '/api/admin/meta/get', { query: { id } })) }
}

/** A rule without an id (0) is made. */
export async function saveRule(api: ApiClient, rule: Rule): Promise<void> {
  await api.call('post', rule.id ? '/api/admin/meta/update' : '/api/admin/meta/create', { body: rule })
}

export async function removeRule(api: ApiClient, id: number): Promise<void> {
  await api.call('post', '/api/admin/meta/delete', { query: { id } })
}
