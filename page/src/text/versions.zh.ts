import type { Texts } from './en'

export const versions: Texts['versions'] = {
  deleted: '在此删除',
  latest: '当前',
  none: '没有更早的版本。存储设置了“keep_versions”选项，或存储桶启用了版本控制时，才会保留版本。',
  of: (name) => `${name} 的版本`,
  open: '打开',
  openOne: (date) => `打开 ${date} 的版本`,
  restore: '恢复',
  restored: (date) => `已恢复 ${date} 的版本`,
  restoreOne: (date) => `恢复 ${date} 的版本`,
  title: '版本',
  verb: '版本…',
}
