/** Single sign-on: the service leads to an identity provider in a window of its own, which posts its answer to this one. */

type Method = 'sso_get_token' | 'get_sso_id'

const ANSWER_FIELDS = { sso_get_token: 'token', get_sso_id: 'sso_id' } as const
const POLL_MS = 300
const WINDOW_FEATURES = 'popup,width=520,height=680'

/** The outcome of a way to the identity provider. */
export type ProviderAnswer = { kind: 'done'; value: string } | { kind: 'closed' } | { kind: 'blocked' }

/** Ask the identity provider for a token of a session, or for the proof that links an identity to this account. */
export function askProvider(method: Method): Promise<ProviderAnswer> {
  const popup = window.open(formatProviderAddress(method), '_blank', WINDOW_FEATURES)
  if (!popup) return Promise.resolve({ kind: 'blocked' })
  return new Promise((resolve) => {
    let wasClosed = false
    const timer = setInterval(() => {
      if (wasClosed) end({ kind: 'closed' })
      wasClosed = popup.closed // an answer that was posted before comes first
    }, POLL_MS)
    const receive = ({ origin, source, data }: MessageEvent) => {
      const value: unknown = data?.[ANSWER_FIELDS[method]]
      if (origin !== location.origin || source !== popup) return
      if (typeof value === 'string' && value) end({ kind: 'done', value })
    }
    window.addEventListener('message', receive)

    function end(answer: ProviderAnswer) {
      clearInterval(timer)
      window.removeEventListener('message', receive)
      popup?.close()
      resolve(answer)
    }
  })
}

/** The address that leads to the identity provider. */
export function formatProviderAddress(method: Method): string {
  return `/api/auth/sso?method=${method}`
}
