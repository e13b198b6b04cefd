import { afterEach, expect, test, vi } from 'vitest'
import { ApiClient } from '../src/api/client'

/** Answer every request so; the tokens that the requests are sent with. */
function answer(envelope: object): (string | null)[] {
  const tokens: (string | null)[] = []
  vi.stubGlobal('fetch', async (_: string, { headers }: { headers: Headers }) => {
    tokens.push(headers.get('authorization'))
    return Response.json(envelope)
  })
  return tokens
}

const REFUSAL = { code: 401, message: 'token is invalidated', data: null, problem: 'Unauthorized' }

afterEach(() => vi.unstubAllGlobals())

test('each client sends its own token, and none for a guest', async () => {
  const tokens = answer({ code: 200, message: 'success', data: {} })
  const [api, other, guest] = [new ApiClient(), new ApiClient(), new ApiClient()]
  api.token = 'a'
  other.token = 'b'
  for (const client of [api, other, guest]) await client.call('get', '/api/me')
  await api.call('get', '/api/me', { token: '' })
  expect(tokens).toEqual(['a', 'b', null, null])
})

test.each([
  ['the token of the session is refused', {}, 1],
  ['a guest is refused', { token: '' }, 0],
  ['another token is refused', { token: 'b' }, 0],
])('%s: the end of the session is told only for its own token', async (_, options, times) => {
  answer(REFUSAL)
  const api = new ApiClient()
  api.token = 'a'
  api.onSignedOut = vi.fn()
  await expect(api.call('get', '/api/me', options)).rejects.toMatchObject({ kind: 'signedOut' })
  expect(api.onSignedOut).toHaveBeenCalledTimes(times)
})
