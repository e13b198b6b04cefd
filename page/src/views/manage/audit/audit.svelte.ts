import { type AuditFilter, listAudit } from '../../../api/audit'
import type { ApiClient } from '../../../api/client'
import { asProblem, type Problem } from '../../../api/problem'
import type { AuditRow } from '../../../api/schema'

/** The service reads a bounded number of records for a page; so many pages without a row are passed over in turn. */
const MAX_EMPTY_PAGES = 20

/** The actions that match a filter, as far as they were asked for. */
export class AuditList {
  rows = $state.raw<AuditRow[] | null>(null) // null until the first page is here
  problem = $state.raw<Problem | null>(null)
  isBusy = $state(false)
  next = $state('') // where earlier actions begin; '' without any
  #last = 0
  #filter: AuditFilter = { username: '', action: '', since: '', until: '' }

  constructor(private readonly api: ApiClient) {}

  async show(filter: AuditFilter): Promise<void> {
    this.#filter = filter
    await this.#load([], '')
  }

  async showMore(): Promise<void> {
    await this.#load(this.rows ?? [], this.next)
  }

  /** The answer to the latest call counts. */
  async #load(before: AuditRow[], start: string): Promise<void> {
    const call = ++this.#last
    this.isBusy = true
    this.problem = null
    try {
      let page = await listAudit(this.api, this.#filter, start)
      for (let pages = 1; page.content.length === 0 && page.next && pages < MAX_EMPTY_PAGES; pages++)
        page = await listAudit(this.api, this.#filter, page.next)
      if (call !== this.#last) return
      this.rows = [...before, ...page.content]
      this.next = page.next
    } catch (thrown) {
      if (call === this.#last) this.problem = asProblem(thrown)
    } finally {
      if (call === this.#last) this.isBusy = false
    }
  }
}
