/** Texts about the trash. */
export const trash = {
  by: (name: string) => `by ${name}`,
  delete: 'Delete for good',
  deleteConfirm: (name: string) => `Delete “${name}” for good? This cannot be undone.`,
  deleted: 'Deleted for good',
  deleteOne: (name: string) => `Delete ${name} for good`,
  empty: 'Empty the trash',
  emptied: 'The trash is empty',
  emptyAllConfirm: 'Delete everything in the trash of all users for good? This cannot be undone.',
  emptyConfirm: 'Delete everything in your trash for good? This cannot be undone.',
  everybody: 'Everybody’s',
  explanation: 'Storages with a trash keep what was deleted or replaced for some days.',
  final: 'This cannot be undone.',
  from: 'From',
  kept: (days: number) =>
    days === 1
      ? 'It can be restored from the trash for one day.'
      : `It can be restored from the trash for ${days} days.`,
  more: 'Show more',
  none: 'The trash is empty.',
  noneHint: 'What you delete appears here if its storage has a trash.',
  notDeleted: (count: number) =>
    count === 1 ? '1 entry could not be deleted.' : `${count} entries could not be deleted.`,
  nothing: 'There is nothing to restore.',
  notRestored: (count: number, reason: string) =>
    count === 1 ? `1 entry could not be restored: ${reason}` : `${count} entries could not be restored: ${reason}`,
  own: 'Mine',
  removed: (date: string) => `deleted ${date}`,
  replaced: (date: string) => `replaced ${date}`,
  restore: 'Restore',
  restored: (count: number) => `${count} entries restored`,
  restoredTo: (path: string) => `Restored: ${path}`,
  restoring: 'The restore takes longer. It continues as a task.',
  restoreOne: (name: string) => `Restore ${name}`,
  title: 'Trash',
  undo: 'Undo',
  unknown: 'The storage decides whether this can be undone.',
  until: (date: string) => `kept until ${date}`,
  whose: 'Whose entries',
}
