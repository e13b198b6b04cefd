import type { ApiClient } from '../../../api/client'
import { asProblem, type Problem } from '../../../api/problem'
import type { MountDetails, StorageReq, StorageRow, StorageTrial } from '../../../api/schema'

/** A storage as the list has it; with its space where the administrators want to see it. */
export type Storage = StorageRow & { mount_details?: MountDetails | null }

export type StorageState = 'working' | 'starting' | 'disabled' | 'failed'

export async function listStorages(api: ApiClient): Promise<Storage[]> {
  return (await api.call('get', '/api/admin/storage/list')).content ?? []
}

export function getStorage(api: ApiClient, id: number): Promise<Storage> {
  return api.call('get', '/api/admin/storage/get', { query: { id } })
}

/** The state of a storage; if it failed, `status` is the reason. */
export function findState({ disabled, status }: Storage): StorageState {
  if (disabled) return 'disabled'
  if (status === '') return 'starting'
  return status === 'work' ? 'working' : 'failed'
}

/** Change some fields of a storage and start it anew. Drivers store tokens of their own, so the rest is read just now. */
export async function changeStorage(api: ApiClient, id: number, change: Partial<StorageReq>): Promise<void> {
  const { status: _, modified: __, ...now } = await getStorage(api, id)
  await api.call('post', '/api/admin/storage/update', { body: { ...now, ...change } })
}

/** The same for a change that does not mind whether the storage can start: it is stored in any case. */
export async function storeStorage(api: ApiClient, id: number, change: Partial<StorageReq>): Promise<void> {
  try {
    await changeStorage(api, id, change)
  } catch (thrown) {
    if (!isOnlyStopped(asProblem(thrown))) throw thrown
  }
}

/** Start a driver with options that are not stored, and list the folders of a folder of the storage. Throws Problem. */
export function tryStorage(api: ApiClient, driver: string, addition: string, folder: string): Promise<StorageTrial> {
  return api.call('post', '/api/admin/storage/test', { body: { driver, addition, folder } })
}

/** Test a stored storage with a driver of its own; the number of its folders. Throws Problem. */
export async function testStorage(api: ApiClient, id: number): Promise<number> {
  const { driver, addition } = await getStorage(api, id)
  const trial = await tryStorage(api, driver, addition, '/')
  if (trial.addition !== addition) await storeStorage(api, id, { addition: trial.addition }) // tokens that work once were replaced
  return trial.folders.length
}

/** Make a storage; its id. It may be there and not work: its status says why. */
export async function createStorage(api: ApiClient, body: StorageReq): Promise<number> {
  try {
    return (await api.call('post', '/api/admin/storage/create', { body })).id
  } catch (thrown) {
    if (!isOnlyStopped(asProblem(thrown))) throw thrown
    const made = (await listStorages(api)).find((row) => row.mount_path === cleanPath(body.mount_path))
    if (!made) throw thrown
    return made.id
  }
}

/** True if the record was stored, and only the driver did not start. */
export function isOnlyStopped(problem: Problem): boolean {
  return /^failed (init|load) storage/.test(problem.message)
}

/** A mount path as the service stores it. */
export function cleanPath(path: string): string {
  return `/${path.replaceAll('\\', '/').split('/').filter(Boolean).join('/')}`
}

/** The two keys in the refusal of an SFTP server that shows another key than before; null for any other status. */
export function parseHostKeyChange(status: string): { before: string; now: string } | null {
  const match = /host key has changed: it was (\S+) and is (\S+) now/.exec(status)
  return match?.[1] && match[2] ? { before: match[1], now: match[2] } : null
}

/** Accept the key that was shown: another one, met on the next connection, is refused again. */
export async function acceptHostKey(api: ApiClient, id: number, fingerprint: string): Promise<void> {
  const { addition } = await getStorage(api, id)
  await changeStorage(api, id, { addition: JSON.stringify({ ...JSON.parse(addition), host_key: fingerprint }) })
}
