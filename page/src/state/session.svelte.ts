import type { ApiClient } from '../api/client'
import { RIGHTS, ROLES } from '../api/enums'
import { join } from '../api/paths'
import { asProblem, type Problem } from '../api/problem'
import type { Me } from '../api/schema'
import type { Audience } from './routes'
import { TabSession } from './tabs'

export type Right = keyof typeof RIGHTS

/** The session of the page. Every tab of the browser has it; it outlives them only if the user chose to stay signed in. */
export class Session {
  user = $state.raw<Me | null>(null)
  problem = $state.raw<Problem | null>(null) // why it is not known who uses the page
  isKnown = $state(false) // whether the service has said who it is, or that nobody is
  isKept = $state(false) // whether the user stays signed in on this device
  wasEnded = $state(false) // whether the service ended it, so that one must sign in again
  #isRenewing = false // requests that are under way are refused, which does not end the session
  #tabs = new TabSession(
    () => this.api.token,
    () => void this.#end(),
  )

  /** `onforgotten`: called when what belongs to the user has to go from this device. */
  constructor(
    private readonly api: ApiClient,
    private onforgotten: () => void,
  ) {}

  get isGuest(): boolean {
    return this.user?.role === ROLES.guest
  }

  get isAdministrator(): boolean {
    return this.user?.role === ROLES.admin
  }

  /** True if the user is one of those who may see a view. */
  isAmong(audience: Audience): boolean {
    if (audience === 'everyone') return true
    if (audience === 'administrators') return this.isAdministrator
    return this.user !== null && (audience === 'guests' || !this.isGuest)
  }

  may(right: Right): boolean {
    return this.isAdministrator || ((this.user?.permission ?? 0) & RIGHTS[right]) !== 0
  }

  /** The path in the whole tree of a path that the user sees. */
  makeAbsolute(path: string): string {
    const base = this.user?.base_path ?? '/'
    return base === '/' ? path : path === '/' ? base : join(base, path.slice(1))
  }

  /** Take up the session of this tab or another one; without one, ask whether guests are let in. */
  async start(): Promise<void> {
    this.api.onSignedOut = () => void this.#end()
    this.api.token = await this.#tabs.find()
    this.isKept = this.#tabs.isKept
    await this.load()
  }

  async load(): Promise<void> {
    this.problem = null
    try {
      this.user = await this.api.call('get', '/api/me')
      this.isKnown = true
    } catch (thrown) {
      const problem = asProblem(thrown)
      if (problem.kind === 'signedOut') this.#forget()
      else this.problem = problem
    }
  }

  /** `isInDirectory`: name and password are those of the LDAP directory. Throws Problem: `secondFactor` when the account asks for a code. */
  async signIn(username: string, password: string, code: string, stay: boolean, isInDirectory = false): Promise<void> {
    // the plain password: its hash is worth as much to who listens, and browsers hash only over HTTPS
    const path = isInDirectory ? '/api/auth/login/ldap' : '/api/auth/login'
    const { token } = await this.api.call('post', path, { body: { username, password, otp_code: code }, token: '' })
    await this.begin(token, stay)
  }

  /** Use a token that the service made for this user. Throws Problem. */
  async begin(token: string, stay: boolean): Promise<void> {
    this.api.token = token
    this.keep(stay)
    this.wasEnded = false
    await this.load()
    if (this.problem) throw this.problem
  }

  /** Stay signed in on this device when the page is closed, or not. */
  keep(stay: boolean): void {
    this.isKept = stay
    this.#tabs.store(stay)
  }

  /** Give the account a password, the same one or another: all sessions end, and this one begins anew.
   * With a second factor one must sign in again. */
  async setPassword(password: string): Promise<void> {
    const { username, sso_id } = this.user ?? { username: '', sso_id: '' }
    this.#isRenewing = true
    try {
      await this.api.call('post', '/api/me/update', { body: { username, password, sso_id } })
      await this.signIn(username, password, '', this.isKept)
    } catch (thrown) {
      if (asProblem(thrown).kind !== 'secondFactor') throw thrown
      this.#forget()
      this.wasEnded = true
    } finally {
      this.#isRenewing = false
    }
  }

  async signOut(): Promise<void> {
    try {
      await this.api.call('get', '/api/auth/logout')
    } catch {
      // the session is forgotten here in any case
    }
    this.#forget()
    await this.load()
  }

  /** The service no longer takes the token; guests may still be let in. */
  async #end(): Promise<void> {
    if (this.#isRenewing) return
    this.#forget()
    this.wasEnded = true
    await this.load()
  }

  #forget(): void {
    this.#tabs.clear()
    this.api.token = ''
    this.isKept = false
    this.onforgotten()
    this.user = null
    this.isKnown = true
  }
}
