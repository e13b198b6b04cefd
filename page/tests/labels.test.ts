import { expect, test } from 'vitest'
import { makeLabel } from '../src/text/labels'
import { parseRefusal } from '../src/views/manage/settings/settings'

test.each([
  ['root_folder_path', 'Root folder path'],
  ['access_key_id', 'Access key ID'],
  ['aria2_uri', 'aria2 URI'],
  ['qbittorrent_seedtime', 'qBittorrent seedtime'],
  ['ftp_tls_public_cert_path', 'FTP TLS public cert path'],
])('%s is read as %s', (name, label) => {
  expect(makeLabel(name)).toBe(label)
})

test('the setting that was refused', () => {
  expect(parseRefusal('failed to execute hook on link_expiration: hours\nstack')).toEqual({
    key: 'link_expiration',
    reason: 'hours',
  })
  expect(parseRefusal('the disk is full')).toBeNull()
})
