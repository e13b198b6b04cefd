import { expect, test } from 'vitest'
import { type Backup, formatBackup, parseBackup } from '../src/views/manage/backup/backup'
import { findUserIds, planRestore } from '../src/views/manage/backup/plan'

const user = (id: number, username: string, role = 0) => ({ id, username, role, base_path: '/', permission: 0 })
const setting = (key: string, value: string, flag = 0) => ({ key, value, flag })
const storage = (id: number, mount_path: string, more = {}) => ({
  id, mount_path, driver: 'Local', addition: '{"a":1,"b":2}', status: 'work', modified: 'then', ...more,
}) // biome-ignore format: one line

const now = {
  settings: [setting('site_title', 'Old'), setting('version', 'v2', 2), setting('logo', ''), setting('foreign', '', 3)],
  storages: [storage(1, '/a')],
  users: [user(1, 'root', 2), user(2, 'guest', 1), user(9, 'anna')],
  metas: [{ id: 5, path: '/a', read_users: [9], readme: 'hello' }],
} as unknown as Backup

function plan(part: keyof Backup, rows: object[]) {
  const backup = { settings: [], storages: [], users: [user(3, 'anna')], metas: [], [part]: rows } as unknown as Backup
  return planRestore(backup, now).filter((step) => step.part === part)
}

test('settings: what differs is sent, what is the service’s own or unknown is not', () => {
  const rows = [setting('site_title', 'New'), setting('logo', ''), setting('version', 'v1', 2), setting('foreign', 'x')]
  const steps = plan('settings', [...rows, setting('index_progress', '{}')])
  expect(steps.map(({ name, what }) => [name, what])).toEqual([
    ['site_title', 'update'],
    ['logo', 'same'],
    ['foreign', 'unknown'],
  ])
})

test('storages are known by their paths; how their options are written does not count', () => {
  const rows = [storage(7, '/a', { addition: '{"b":2, "a":1}', status: 'other', modified: 'now' }), storage(8, '/b')]
  expect(plan('storages', rows).map(({ what, row }) => [what, 'id' in row && row.id])).toEqual([
    ['same', 1],
    ['create', 0],
  ])
  expect(plan('storages', [storage(7, '/a', { addition: '{"a":1,"b":3}' })])[0]).toMatchObject({ what: 'update' })
})

test('the administrator keeps the name that it has here', () => {
  const [step] = plan('users', [{ ...user(1, 'admin', 2), base_path: '/x' }])
  expect(step).toMatchObject({ name: 'root', what: 'update', row: { id: 1, username: 'root', password: '' } })
})

test('the users of a rule are the ones of that name', () => {
  const row = { id: 1, path: '/a', read_users: [3], readme: 'hello' }
  expect(plan('metas', [row])[0]).toMatchObject({ what: 'same', row: { id: 5 } })
  const backup = { users: [user(3, 'anna'), user(4, 'otto')] } as unknown as Backup
  expect(findUserIds([3], backup, now.users)).toEqual({ userIds: [9] })
  expect(findUserIds([3, 4], backup, now.users)).toEqual({ missing: 'otto' })
  expect(findUserIds(null, backup, now.users)).toEqual({ userIds: [] })
})

test('a backup is read as it was written', () => {
  expect(parseBackup(formatBackup(now))).toEqual(now)
})

test.each(['', '[]', '{}', '{"users":5}', '{"users":[{}]}', '{"encrypted":"x","settings":"y"}', '{"storages":[null]}'])(
  'no backup: %s',
  (text) => expect(parseBackup(text)).toBeNull(),
)
