// Derived from the service by `make generate`.

/** The bits of a user's `permission`. */
export const RIGHTS = {
  seeHidden: 1,
  skipPassword: 2,
  offlineDownload: 4,
  write: 8,
  rename: 16,
  move: 32,
  copy: 64,
  delete: 128,
  webdavRead: 256,
  webdavManage: 512,
  ftpRead: 1024,
  ftpManage: 2048,
  readArchives: 4096,
  decompress: 8192,
  share: 16384,
  customShareId: 32768,
} as const

/** The roles of users. */
export const ROLES = {
  normal: 0,
  guest: 1,
  admin: 2,
} as const

/** Groups of settings. */
export const SETTING_GROUPS = {
  single: 0,
  site: 1,
  style: 2,
  preview: 3,
  global: 4,
  offline: 5,
  index: 6,
  sso: 7,
  ldap: 8,
  s3: 9,
  ftp: 10,
  traffic: 11,
} as const

/** The visibility of a setting. */
export const SETTING_FLAGS = {
  public: 0,
  private: 1,
  readonly: 2,
  deprecated: 3,
} as const

/** Kinds of tasks that users see. */
export const TASK_KINDS = [
  'upload',
  'copy',
  'move',
  'offline_download_transfer',
  'decompress_upload',
  'offline_download',
  'decompress',
  'compress',
] as const

/** States of tasks, by their number. */
export const TASK_STATES = [
  'pending',
  'running',
  'succeeded',
  'canceling',
  'canceled',
  'errored',
  'failing',
  'failed',
  'waiting_retry',
  'before_retry',
] as const
