import { get } from '../../../api/files'
import { join, makeFileAddress } from '../../../api/paths'
import { Problem } from '../../../api/problem'
import { passwords } from '../../../state/passwords'
import { session } from '../../../state/session.svelte'

/** The bytes of a file, through the service: a page may not read from other origins. Throws Problem. */
export async function fetchFile(path: string, signal: AbortSignal): Promise<Response> {
  const { raw_url, sign } = await get(path, passwords.find(path))
  const address = new URL(raw_url, location.href)
  const isOurs = address.origin === location.origin
  let answer: Response
  try {
    answer = await fetch(isOurs ? address : makeProxyAddress(path, sign), { signal, referrerPolicy: 'no-referrer' })
  } catch (error) {
    if (signal.aborted) throw error
    throw new Problem('offline')
  }
  if (answer.ok) return answer
  await answer.body?.cancel()
  throw new Problem(answer.status === 403 ? 'forbidden' : 'broken', '', answer.status)
}

function makeProxyAddress(path: string, sign: string): string {
  const base = session.user?.base_path ?? '/'
  return makeFileAddress('/p', base === '/' ? path : join(base, path.slice(1)), { d: '', ...(sign && { sign }) })
}
