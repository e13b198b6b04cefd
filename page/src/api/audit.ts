import type { ApiClient } from './client'
import type { AuditReq, AuditRows } from './schema'

/** A choice of actions. `since` and `until` are days of the reader, as `2026-11-28`; '' for no choice. */
export type AuditFilter = Required<Pick<AuditReq, 'username' | 'action' | 'since' | 'until'>>

/** Return a page of the audit, the last action first. `start` is `next` of the page before. */
export async function listAudit(api: ApiClient, filter: AuditFilter, start: string): Promise<AuditRows> {
  const since = toMoment(filter.since, 0)
  const until = toMoment(filter.until, 1)
  return await api.call('post', '/api/admin/audit/list', { body: { ...filter, since, until, start } })
}

/** Return the moment at which a day begins where the reader is, some days later. */
export function toMoment(day: string, offsetDays: number): string {
  if (!day) return ''
  const moment = new Date(`${day}T00:00:00`)
  moment.setDate(moment.getDate() + offsetDays)
  return moment.toISOString()
}
