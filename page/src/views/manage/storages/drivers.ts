export type DriverGroup = 'server' | 'bucket' | 'drive' | 'other'
export type DriverSign = 'bucket' | 'disk' | 'drive' | 'flask' | 'link' | 'lock' | 'server'

interface DriverLook {
  group: DriverGroup
  sign: DriverSign
  /** The hue of its icon, in degrees. */
  hue: number
}

const LOOKS: Record<string, DriverLook> = {
  Local: { group: 'server', sign: 'disk', hue: 250 },
  SFTP: { group: 'server', sign: 'server', hue: 160 },
  SMB: { group: 'server', sign: 'server', hue: 230 },
  WebDav: { group: 'server', sign: 'server', hue: 200 },
  FTP: { group: 'server', sign: 'server', hue: 60 },
  S3: { group: 'bucket', sign: 'bucket', hue: 145 },
  AzureBlob: { group: 'bucket', sign: 'bucket', hue: 245 },
  GCS: { group: 'bucket', sign: 'bucket', hue: 262 },
  B2: { group: 'bucket', sign: 'bucket', hue: 25 },
  OSS: { group: 'bucket', sign: 'bucket', hue: 50 },
  COS: { group: 'bucket', sign: 'bucket', hue: 225 },
  OBS: { group: 'bucket', sign: 'bucket', hue: 15 },
  TOS: { group: 'bucket', sign: 'bucket', hue: 280 },
  Swift: { group: 'bucket', sign: 'bucket', hue: 0 },
  Dropbox: { group: 'drive', sign: 'drive', hue: 255 },
  GoogleDrive: { group: 'drive', sign: 'drive', hue: 140 },
  OneDrive: { group: 'drive', sign: 'drive', hue: 240 },
  AliyunDrive: { group: 'drive', sign: 'drive', hue: 290 },
  Seafile: { group: 'drive', sign: 'drive', hue: 70 },
  YandexDisk: { group: 'drive', sign: 'drive', hue: 30 },
  Crypt: { group: 'other', sign: 'lock', hue: 310 },
  Alias: { group: 'other', sign: 'link', hue: 190 },
  UrlTree: { group: 'other', sign: 'link', hue: 100 },
  Virtual: { group: 'other', sign: 'flask', hue: 330 },
}
const PLACEHOLDERS: Record<string, Record<string, string>> = {
  Local: { root_folder_path: '/srv/files' },
  SFTP: { address: 'nas.example.org:22', username: 'ann', root_folder_path: '/home/ann' },
  FTP: { address: 'ftp.example.org:21', username: 'ann' },
  SMB: { address: 'nas.example.org:445', username: 'ann', share_name: 'Documents' },
  WebDav: { address: 'https://cloud.example.org/remote.php/dav/files/ann', username: 'ann' },
  S3: { bucket: 'my-files', endpoint: 'https://s3.eu-central-1.amazonaws.com', region: 'eu-central-1' },
  AzureBlob: { endpoint: 'https://account.blob.core.windows.net', container: 'files' },
}

export const DRIVER_GROUPS: readonly DriverGroup[] = ['server', 'bucket', 'drive', 'other']

export function findLook(driver: string): DriverLook {
  return LOOKS[driver] ?? { group: 'other', sign: 'server', hue: 250 }
}

/** The drivers of a group, the most frequent ones first, the unknown ones last. */
export function listDrivers(group: DriverGroup, names: readonly string[]): string[] {
  const order = Object.keys(LOOKS)
  return names
    .filter((name) => findLook(name).group === group)
    .sort(
      (a, b) => ((order.indexOf(a) + order.length) % order.length) - ((order.indexOf(b) + order.length) % order.length),
    )
}

/** An example of an option's value; '' for none. */
export function findPlaceholder(driver: string, option: string): string {
  return PLACEHOLDERS[driver]?.[option] ?? (option === 'mount_path' ? '/documents' : '')
}
