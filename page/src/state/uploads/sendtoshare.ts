import type { ApiClient } from '../../api/client'
import { begin } from '../../api/multipart'
import { join } from '../../api/paths'
import { Problem } from '../../api/problem'
import type { UploadSnapshot } from '../../api/schema'
import { findShareId, makeShareBytesAddress, makeSharePath } from '../../api/sharepaths'
import { isHeader, putToShare, type Receipt } from '../../api/upload'
import type { DropHistory } from '../drops.svelte'
import type { Stores } from '../stores'
import { finish } from './parts'
import type { Upload } from './upload'

/** Send a file to a share, a large one in parts where the service lets visitors; its receipt. A folder is not made: its
 *  files lie beside the others. Throws Problem, or the signal's reason. */
export async function sendToShare(
  { api, drops, passwords }: Pick<Stores, 'api' | 'drops' | 'passwords'>,
  upload: Upload,
  canSplit: boolean,
  signal: AbortSignal,
  onprogress: (sent: number) => void,
): Promise<Receipt | null> {
  const { file, batch, name } = upload
  if (!file) return null
  const path = join(batch.folder, name)
  const password = passwords.find(path)
  const options = { overwrite: false, password, signal, onprogress }
  const session = canSplit ? await open(api, drops, path, file, options) : null
  if (!session) {
    return putToShare(makeShareBytesAddress(path, password), file, { session: drops.session, signal, onprogress })
  }
  drops.begin(makeSharePath(findShareId(path)), file, session.upload_id)
  const { receipt } = await finish(api, session, file, options, { 'x-share-session': drops.session })
  return {
    name: String(receipt?.name ?? name),
    size: Number(receipt?.size ?? file.size),
    sha256: String(receipt?.sha256 ?? ''),
    time: (receipt ? new Date(Number(receipt.time) * 1000) : new Date()).toISOString(), // of the service: in seconds
  }
}

/** The upload of the file that was begun before the page was loaded again, or a new one; null where visitors send whole
 *  files alone. */
async function open(
  api: ApiClient,
  drops: DropHistory,
  path: string,
  file: File,
  options: { overwrite: boolean; password: string; signal: AbortSignal },
): Promise<UploadSnapshot | null> {
  const id = drops.findUpload(makeSharePath(findShareId(path)), file)
  if (id) {
    const known = await resume(api, id, file, options)
    if (known) return known
  }
  try {
    return await begin(api, path, file, options)
  } catch (thrown) {
    const kind = thrown instanceof Problem ? thrown.kind : ''
    if (kind === 'signedOut' || kind === 'missing') return null
    throw thrown
  }
}

async function resume(
  api: ApiClient,
  id: string,
  file: File,
  { password, signal }: { password: string; signal: AbortSignal },
): Promise<UploadSnapshot | null> {
  try {
    const headers = isHeader(password) ? { password } : {}
    const known = await api.call('get', '/api/fs/multipart/status', { query: { upload_id: id }, headers, signal })
    return known.state === 'receiving' && known.size === file.size ? known : null
  } catch (thrown) {
    signal.throwIfAborted()
    if (thrown instanceof Problem && thrown.kind === 'offline') throw thrown
    return null // it is over: the file is sent from its begin
  }
}
