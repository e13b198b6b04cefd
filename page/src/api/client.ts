import { classify, isSuccess, Problem, type ProblemKind } from './problem'
import type { Failure, paths } from './schema'

type Method = 'get' | 'post' | 'put'
type PathsWith<M extends Method> = { [P in keyof paths]: paths[P][M] extends object ? P : never }[keyof paths]
type Operation<M extends Method, P extends PathsWith<M>> = NonNullable<paths[P][M]>
type Body<O> = O extends { requestBody?: { content: { 'application/json': infer B } } } ? B : never
type Query<O> = O extends { parameters: { query?: infer Q } } ? Q : never
type Answer<O> = O extends { responses: { 200: { content: { 'application/json': infer A } } } } ? A : never
type Data<O> = Extract<Answer<O>, { code: 200; data: unknown }>['data']

export interface Options<O> {
  body?: Body<O>
  query?: Query<O>
  signal?: AbortSignal
  /** Sent beside the usual ones: a one-time code must not stand in an address. */
  headers?: Record<string, string>
  /** Sent in place of the session's own; '' asks as a guest. */
  token?: string
}

/** The client of the interface: the functions beside this module take it as their first argument. */
export class ApiClient {
  token = '' // of the session; '' for a guest
  onSignedOut = () => {} // called when the service no longer accepts the token

  /** Call an operation of the interface; its data. Throws Problem. */
  async call<M extends Method, P extends PathsWith<M>>(
    method: M,
    path: P,
    options: Options<Operation<M, P>> = {},
  ): Promise<Data<Operation<M, P>>> {
    const token = options.token ?? this.token
    const headers = new Headers({ ...options.headers, ...(token ? { authorization: token } : {}) })
    const init: RequestInit = { method: method.toUpperCase(), headers }
    if (options.body !== undefined) {
      headers.set('content-type', 'application/json')
      init.body = JSON.stringify(options.body)
    }
    if (options.signal) init.signal = options.signal
    const answer = await send(path + formatQuery(options.query ?? {}), init)
    if (isSuccess(answer)) return answer.data as Data<Operation<M, P>>
    const kind = classify(answer.problem)
    this.noteRefusal(kind, token)
    throw new Problem(kind, answer.message, answer.code, answer.problem)
  }

  /** Tell `onSignedOut` if the service refused the present token. `token`: what the request was sent with. */
  noteRefusal(kind: ProblemKind, token: string): void {
    if (kind === 'signedOut' && token && token === this.token) this.onSignedOut()
  }
}

interface Success {
  code: 200
  data: unknown
}

/** Not by the word of a failure: another service may answer without. */
async function send(address: string, init: RequestInit): Promise<Success | Failure> {
  let answer: Response
  try {
    answer = await fetch(address, init)
  } catch (error) {
    if (init.signal?.aborted) throw error
    throw new Problem('offline')
  }
  try {
    const envelope: Success | Failure = await answer.json()
    if (typeof envelope.code === 'number') return envelope
  } catch (error) {
    if (init.signal?.aborted) throw error
  }
  // a proxy answered in place of the service
  throw new Problem(answer.status >= 500 ? 'broken' : 'offline', '', answer.status)
}

function formatQuery(query: object): string {
  const text = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)])).toString()
  return text && `?${text}`
}
