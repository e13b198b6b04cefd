import { SETTING_FLAGS } from '../../../api/enums'
import { asProblem, type Problem } from '../../../api/problem'
import type { SettingRow } from '../../../api/schema'
import { type FieldDescription, type FieldValues, findFault } from '../../../parts/form/field'
import type { Stores } from '../../../state/stores'
import { describe, listDefaults, listSettings, parseRefusal, readValue } from './settings'

/** Settings as they are being changed: nothing is sent before `save`. */
export class SettingsDraft {
  values = $state.raw<FieldValues>({})
  isBusy = $state(false)
  isChecked = $state(false)
  isSaved = $state(false) // said until the next change
  problem = $state.raw<Problem | null>(null)
  #rows = $state.raw<readonly SettingRow[]>([])
  #defaults = $state.raw<FieldValues>({})
  readonly #groups: readonly number[]

  constructor(
    private stores: Pick<Stores, 'api' | 'language' | 'site'>,
    groups: readonly number[],
  ) {
    this.#groups = groups
  }

  /** The settings that this version has, in order. */
  readonly rows = $derived(this.#rows.filter((row) => row.flag !== SETTING_FLAGS.deprecated))
  /** Settings that this version does not know. */
  readonly old = $derived(this.#rows.filter((row) => row.flag === SETTING_FLAGS.deprecated))
  readonly fields: readonly FieldDescription[] = $derived(this.rows.map((row) => describe(this.stores.language, row)))
  readonly changed = $derived(
    this.rows.filter((row) => row.flag !== SETTING_FLAGS.readonly && this.values[row.key] !== readValue(row)),
  )
  /** The message of the service about a setting. */
  readonly refusals: FieldValues = $derived.by(() => {
    const refusal = parseRefusal(this.problem?.message ?? '')
    return refusal && this.values[refusal.key] !== undefined ? { [refusal.key]: refusal.reason } : {}
  })

  async load(): Promise<this> {
    const { api } = this.stores
    const [rows, defaults] = await Promise.all([listSettings(api, this.#groups), listDefaults(api, this.#groups)])
    this.#rows = rows
    this.#defaults = Object.fromEntries(defaults.map((row) => [row.key, readValue(row)]))
    this.undo()
    return this
  }

  undo(): void {
    this.values = Object.fromEntries(this.#rows.map((row) => [row.key, readValue(row)]))
    this.problem = null
    this.isChecked = false
  }

  isDefault(key: string): boolean {
    return this.#defaults[key] === undefined || this.#defaults[key] === this.values[key]
  }

  reset(keys: readonly string[]): void {
    const defaults = keys.filter((key) => !this.isDefault(key)).map((key) => [key, this.#defaults[key] ?? ''])
    this.values = { ...this.values, ...Object.fromEntries(defaults) }
  }

  /** Send what was changed, all of it or, where one is refused, nothing; whether it is stored. */
  async save(): Promise<boolean> {
    this.isChecked = true
    if (this.isBusy || this.fields.some((field) => findFault(field, this.values[field.name] ?? ''))) return false
    this.isBusy = true
    this.isSaved = false
    this.problem = null
    try {
      const body = this.changed.map((row) => ({ ...row, value: this.values[row.key] ?? '' }))
      if (body.length > 0) await this.stores.api.call('post', '/api/admin/setting/save', { body })
      await this.load()
      void this.stores.site.load()
      this.isSaved = true
      return true
    } catch (thrown) {
      this.problem = asProblem(thrown)
      return false
    } finally {
      this.isBusy = false
    }
  }

  async forget(key: string): Promise<void> {
    await this.stores.api.call('post', '/api/admin/setting/delete', { query: { key } })
    this.#rows = this.#rows.filter((row) => row.key !== key)
  }
}
