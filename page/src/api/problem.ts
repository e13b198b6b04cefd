import type { Failure } from './schema'

/** Why a call failed. The page decides by `kind`; `message` is the service's own sentence, or '' where it gave none. */
export class Problem extends Error {
  override name = 'Problem'

  constructor(
    readonly kind: ProblemKind,
    message = '',
    readonly code = 0,
    /** The service's own word for it; '' where it gave none. */
    readonly word: Word | '' = '',
  ) {
    super(message)
  }
}

export type ProblemKind =
  | 'offline' // no answer came, or not one of the service
  | 'signedOut' // 401
  | 'secondFactor' // 402, when signing in; or a code is needed to change it
  | 'folderPassword' // the folder has a password, and none or another one was sent; or the caller may not read at all
  | 'archivePassword' // the same for an archive
  | 'forbidden' // 403
  | 'missing'
  | 'notFolder' // a file was listed
  | 'exists'
  | 'busy' // 429
  | 'refused' // 400 and others: the message says what is wrong with the request
  | 'broken' // 500

/** The service's own word for what went wrong. */
export type Word = Failure['problem']

const KINDS: Partial<Record<Word, ProblemKind>> = {
  BadRequest: 'refused',
  Collision: 'exists',
  Denied: 'forbidden',
  Exists: 'exists',
  Forbidden: 'forbidden',
  Missing: 'missing',
  NotAFolder: 'notFolder',
  NotAvailable: 'missing',
  NotFound: 'missing',
  NotMounted: 'missing',
  NotReadable: 'folderPassword',
  PresentCodeRequired: 'secondFactor',
  RecordNotFound: 'missing',
  RelativePath: 'forbidden',
  SearchUnavailable: 'missing',
  SecondFactorRequired: 'secondFactor',
  TooLarge: 'refused',
  TooMany: 'busy',
  Unauthorized: 'signedOut',
  UploadRefused: 'refused',
  WrongArchivePassword: 'archivePassword',
}

/** True if an envelope says success: its code alone tells. */
export function isSuccess<Success extends { code: 200 }>(answer: Success | Failure): answer is Success {
  return answer.code === 200
}

/** The kind of a problem by the word of the service. Unknown words are plain failures. */
export function classify(word: Word): ProblemKind {
  return KINDS[word] ?? 'broken'
}

/** Anything that was thrown as a Problem; what is no Problem is a fault of the page, and is logged. */
export function asProblem(thrown: unknown): Problem {
  if (thrown instanceof Problem) return thrown
  console.error(thrown)
  return new Problem('broken')
}
