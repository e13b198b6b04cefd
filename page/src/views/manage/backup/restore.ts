import type { ApiClient } from '../../../api/client'
import { asProblem } from '../../../api/problem'
import type { SettingRow } from '../../../api/schema'
import type { Language } from '../../../text/language.svelte'
import { isOnlyStopped } from '../storages/storages'
import type { Backup } from './backup'
import { findUserIds, type Step } from './plan'

/** The result of a step. `message`: the message of the service if it failed. */
export interface Outcome {
  step: Step
  result: 'created' | 'updated' | 'same' | 'unknown' | 'stopped' | 'withoutUser' | 'failed'
  message: string
}

/** Do the steps in their order, each by itself: what fails keeps none of the others back. */
export async function restore(
  api: ApiClient,
  language: Language,
  steps: readonly Step[],
  backup: Backup,
  tell: (outcome: Outcome) => void,
): Promise<void> {
  const settings = steps.filter((step) => step.part === 'settings')
  const areSaved = await trySettings(api, settings.filter(isChange), backup)
  for (const step of steps) {
    if (!isChange(step)) tell({ step, result: step.what === 'same' ? 'same' : 'unknown', message: '' })
    else if (step.part === 'settings' && areSaved) tell({ step, result: 'updated', message: '' })
    else tell(await tryStep(api, language, step, backup))
  }
}

function isChange({ what }: Step): boolean {
  return what === 'create' || what === 'update'
}

/** Save all settings together, as some fit only each other; false when one is refused, and so none was saved. */
async function trySettings(api: ApiClient, steps: readonly Step[], backup: Backup): Promise<boolean> {
  if (steps.length === 0) return true
  try {
    const names = steps.map((step) => step.name)
    const rows = backup.settings.filter(({ key }) => names.includes(key))
    await saveSettings(api, rows, backup)
    return true
  } catch {
    return false // which one it is shows when each is saved by itself
  }
}

/** The version tells the service that these come from a backup; a token brings the salt of the links made with it. */
async function saveSettings(api: ApiClient, rows: readonly SettingRow[], backup: Backup): Promise<void> {
  const also = rows.some(({ key }) => key === 'token') ? ['version', 'link_salt'] : ['version']
  await api.call('post', '/api/admin/setting/save', {
    body: [...backup.settings.filter(({ key }) => also.includes(key)), ...rows],
  })
}

async function tryStep(api: ApiClient, { t }: Language, step: Step, backup: Backup): Promise<Outcome> {
  try {
    const missing = await run(api, step, backup)
    if (missing) return { step, result: 'withoutUser', message: missing }
    return { step, result: step.what === 'create' ? 'created' : 'updated', message: '' }
  } catch (thrown) {
    const problem = asProblem(thrown)
    const message = problem.message.split('\n')[0] || t().problems[problem.kind]
    if (!isOnlyStopped(problem)) return { step, result: 'failed', message }
    return { step, result: 'stopped', message: message.replace(/^(failed (init|load) storage[^:]*: )+/, '') }
  }
}

/** Do one step; the name of a user who is not here, and without whom a rule would let in others than it says. */
async function run(api: ApiClient, step: Step, backup: Backup): Promise<string | undefined> {
  const isNew = step.what === 'create'
  switch (step.part) {
    case 'settings':
      await saveSettings(api, [step.row], backup)
      return
    case 'storages': {
      const { status: _, modified: __, ...body } = step.row
      await (isNew
        ? api.call('post', '/api/admin/storage/create', { body })
        : api.call('post', '/api/admin/storage/update', { body }))
      return
    }
    case 'users':
      await (isNew
        ? api.call('post', '/api/admin/user/create', { body: step.row })
        : api.call('post', '/api/admin/user/update', { body: step.row }))
      return
    case 'metas': {
      const here = (await api.call('get', '/api/admin/user/list')).content ?? []
      const read = findUserIds(step.row.read_users, backup, here)
      const write = findUserIds(step.row.write_users, backup, here)
      const missing = read.missing ?? write.missing
      if (missing) return missing
      const body = { ...step.row, read_users: read.userIds ?? [], write_users: write.userIds ?? [] }
      await (isNew
        ? api.call('post', '/api/admin/meta/create', { body })
        : api.call('post', '/api/admin/meta/update', { body }))
    }
  }
}
