import type { ApiClient } from './client'
import type { AssertionReq, AttestationReq, PasskeyRow } from './schema'

/** Passkeys: sign in without a password. */

/** True if this browser can use passkeys at this address. */
export function canUsePasskeys(): boolean {
  return typeof PublicKeyCredential === 'function' && 'parseRequestOptionsFromJSON' in PublicKeyCredential
}

export async function listPasskeys(api: ApiClient): Promise<PasskeyRow[]> {
  return api.call('get', '/api/authn/getcredentials')
}

/** Register a passkey that the browser makes with the user. `code`: a code of the second factor, '' without one.
 *  False if the user refused. Throws Problem. */
export async function addPasskey(api: ApiClient, title: string, code: string): Promise<boolean> {
  const begun = await api.call('get', '/api/authn/webauthn_begin_registration', { headers: { 'otp-code': code } })
  const options = unwrap<PublicKeyCredentialCreationOptionsJSON>(begun.options)
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options)
  const credential = await ask(navigator.credentials.create({ publicKey }))
  if (!credential) return false
  await api.call('post', '/api/authn/webauthn_finish_registration', {
    query: { title },
    headers: { session: begun.session },
    body: credential as AttestationReq,
  })
  return true
}

export async function removePasskey(api: ApiClient, id: string): Promise<void> {
  await api.call('post', '/api/authn/delete_authn', { body: { id } })
}

/** Return a session token for the passkey that the user chooses, '' if the user refused. Throws Problem. */
export async function signInWithPasskey(api: ApiClient): Promise<string> {
  const begun = await api.call('get', '/api/authn/webauthn_begin_login', { token: '' })
  const options = unwrap<PublicKeyCredentialRequestOptionsJSON>(begun.options)
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options)
  const credential = await ask(navigator.credentials.get({ publicKey }))
  if (!credential) return ''
  const { token } = await api.call('post', '/api/authn/webauthn_finish_login', {
    headers: { session: begun.session },
    body: credential as AssertionReq,
    token: '',
  })
  return token
}

function unwrap<Options>(options: object): Options {
  return ('publicKey' in options ? options.publicKey : options) as Options
}

/** Return the credential as JSON, null if the user or the browser refused. */
async function ask(request: Promise<Credential | null>): Promise<object | null> {
  try {
    const credential = await request
    return credential instanceof PublicKeyCredential ? credential.toJSON() : null
  } catch (thrown) {
    console.info(thrown)
    return null
  }
}
