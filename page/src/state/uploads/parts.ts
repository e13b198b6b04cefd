import type { ApiClient } from '../../api/client'
import { abort, begin, complete, makeChunkRequest, sign } from '../../api/multipart'
import { asProblem, Problem } from '../../api/problem'
import type { UploadSnapshot } from '../../api/schema'
import { type PutOptions, readAnswer, sendBytes } from '../../api/upload'
import { Checksums } from './checksums'

const CHUNK_CONCURRENCY = 3 // chunks of one file on their way
const TRIES = 4 // of one chunk
const PAUSE = 500 // ms before the second try, and twice as long before each further one

/** The chunks that the service does not have. */
export function listMissing({ total_chunks, received }: Pick<UploadSnapshot, 'total_chunks' | 'received'>): number[] {
  const there = new Set<number>()
  for (const [from = 0, to = -1] of received ?? []) for (let index = from; index <= to; index++) there.add(index)
  return Array.from({ length: total_chunks }, (_, index) => index).filter((index) => !there.has(index))
}

/** Send a file in chunks, those alone that the service does not have from an earlier attempt; the id of the task
 *  that stores it, '' if it is stored. A cancelled one is given up at the service, too. Throws Problem, or the signal's reason. */
export async function sendInParts(
  api: ApiClient,
  path: string,
  file: File,
  options: Pick<PutOptions, 'overwrite' | 'password' | 'signal' | 'onprogress'>,
): Promise<string> {
  return (await finish(api, await begin(api, path, file, options), file, options)).task?.id ?? ''
}

/** Send what an upload lacks, and have the file made. `headers` go with the last request. Throws Problem, or the
 *  signal's reason. */
export async function finish(
  api: ApiClient,
  session: UploadSnapshot,
  file: File,
  options: Pick<PutOptions, 'password' | 'signal' | 'onprogress'>,
  headers: Record<string, string> = {},
): Promise<UploadSnapshot> {
  try {
    await new Chunks(api, session, file, options).send()
    options.signal.throwIfAborted()
    return await complete(api, session.upload_id, options.password, options.signal, headers)
  } catch (thrown) {
    if (options.signal.reason === 'cancel') abort(api, session.upload_id).catch(asProblem) // the sweep takes what is left
    throw thrown
  }
}

/** The chunks of one file on their way. */
class Chunks {
  #missing: number[]
  #done: number // bytes that the service has
  #sent = new Map<number, number>() // bytes of the chunks on their way
  #isDirect: boolean
  #stop = new AbortController()
  #checksums = new Checksums()
  readonly #signal: AbortSignal

  constructor(
    private readonly api: ApiClient,
    private session: UploadSnapshot,
    private file: File,
    private options: Pick<PutOptions, 'signal' | 'onprogress'>,
  ) {
    this.#missing = listMissing(session)
    this.#done = session.received_bytes
    this.#isDirect = session.direct
    this.#signal = AbortSignal.any([options.signal, this.#stop.signal])
  }

  async send(): Promise<void> {
    this.#tell()
    try {
      await Promise.all(Array.from({ length: CHUNK_CONCURRENCY }, () => this.#work()))
    } catch (thrown) {
      this.#stop.abort(thrown) // the first failure is that of all
      throw thrown
    } finally {
      this.#checksums.close(this.#signal.reason)
    }
  }

  async #work(): Promise<void> {
    for (let index = this.#missing.shift(); index !== undefined; index = this.#missing.shift()) {
      const { chunk_size } = this.session
      const chunk = this.file.slice(index * chunk_size, (index + 1) * chunk_size)
      await this.#sendChunk(index, chunk)
      this.#sent.delete(index)
      this.#done += chunk.size
      this.#tell()
    }
  }

  /** The chunk stays a blob: the browser reads it where it sends it, without a copy in the page. */
  async #sendChunk(index: number, chunk: Blob): Promise<void> {
    const sum = await this.#checksums.add(chunk)
    for (let tries = 1; ; tries++) {
      const isDirect = this.#isDirect
      try {
        return await this.#try(index, chunk, sum, isDirect)
      } catch (thrown) {
        this.#signal.throwIfAborted()
        if (!mayPass(thrown) || tries === TRIES) throw thrown
        if (isDirect) this.#isDirect = false // not every storage answers browsers: the service may pass it on
        await wait(PAUSE * 2 ** (tries - 1), this.#signal)
      }
    }
  }

  async #try(index: number, chunk: Blob, sum: string, isDirect: boolean): Promise<void> {
    const { upload_id } = this.session
    const signal = this.#signal
    const { api } = this
    const { token } = api
    const request = isDirect
      ? await sign(api, upload_id, index, sum, signal)
      : makeChunkRequest(api, upload_id, index, sum)
    const onprogress = (sent: number) => {
      this.#sent.set(index, sent)
      this.#tell()
    }
    const answer = await sendBytes(request, chunk, { signal, onprogress })
    if (!isDirect) readAnswer(api, answer, token)
    else if (answer.status !== 200) throw new Problem('broken', '', answer.status)
  }

  #tell(): void {
    const sent = [...this.#sent.values()].reduce((sum, bytes) => sum + bytes, this.#done)
    this.options.onprogress(Math.min(sent, this.file.size))
  }
}

/** True if another try may go better. */
function mayPass(thrown: unknown): boolean {
  return thrown instanceof Problem && ['offline', 'broken', 'busy'].includes(thrown.kind)
}

function wait(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      reject(signal.reason)
    })
  })
}
