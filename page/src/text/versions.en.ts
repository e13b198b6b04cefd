/** Texts about the versions of a file. */
export const versions = {
  deleted: 'deleted here',
  latest: 'current',
  none: 'There are no older versions. Storages keep them if their option “keep_versions” is set, or if their bucket has versioning.',
  of: (name: string) => `Versions of ${name}`,
  open: 'Open',
  openOne: (date: string) => `Open the version of ${date}`,
  restore: 'Restore',
  restored: (date: string) => `Restored the version of ${date}`,
  restoreOne: (date: string) => `Restore the version of ${date}`,
  title: 'Versions',
  verb: 'Versions…',
}
