import type { ApiClient } from '../../../api/client'
import type { FieldValues } from '../../../parts/form/field'

/** A download tool: its settings, and how the service is told to try it. */
export interface Tool {
  name: string
  /** Sent by `connect`. */
  own: readonly string[]
  /** Stored beside. */
  more: readonly string[]
  /** Store its own settings and call it; what it said. Absent where there is nothing to connect to. */
  connect?: (api: ApiClient, values: FieldValues) => Promise<string>
}

export const TOOLS: readonly Tool[] = [
  { name: 'SimpleHttp', own: [], more: ['offline_download_max_size', 'offline_download_allowed_hosts'] },
  {
    name: 'aria2',
    own: ['aria2_uri', 'aria2_secret'],
    more: ['aria2_http'],
    connect: (api, { aria2_uri: uri = '', aria2_secret: secret = '' }) =>
      api.call('post', '/api/admin/setting/set_aria2', { body: { uri, secret } }),
  },
  {
    name: 'qBittorrent',
    own: ['qbittorrent_url', 'qbittorrent_seedtime'],
    more: [],
    connect: (api, { qbittorrent_url: url = '', qbittorrent_seedtime: seedtime = '' }) =>
      api.call('post', '/api/admin/setting/set_qbit', { body: { url, seedtime } }),
  },
]

/** The settings of a group that belong to none of the tools above. */
export function listOthers(keys: readonly string[]): string[] {
  const known = TOOLS.flatMap(({ own, more }) => [...own, ...more])
  return keys.filter((key) => !known.includes(key))
}
