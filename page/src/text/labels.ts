import type { Language } from './language.svelte'

const WORDS: Record<string, string> = {
  api: 'API', aria2: 'aria2', dn: 'DN', efs: 'EFS', ftp: 'FTP', html: 'HTML', http: 'HTTP', id: 'ID', jwt: 'JWT',
  ldap: 'LDAP', oidc: 'OIDC', ocr: 'OCR', pasv: 'PASV', qbittorrent: 'qBittorrent', s3: 'S3', sas: 'SAS', sftp: 'SFTP',
  sso: 'SSO', tls: 'TLS', uri: 'URI', url: 'URL', webauthn: 'WebAuthn', webdav: 'WebDAV', zip: 'ZIP',
} // biome-ignore format: a list of words

/** The name of an option or setting, as people read it: its label in the language, else made of its words. */
export function formatLabel({ t }: Language, name: string): string {
  return t().labels[name] ?? makeLabel(name)
}

/** A help text of the service in the language, as a sentence. */
export function formatHelp({ t }: Language, help: string): string {
  const text = t().helps[help] ?? help
  return text.charAt(0).toUpperCase() + text.slice(1)
}

export function makeLabel(name: string): string {
  const text = name
    .split('_')
    .map((word) => WORDS[word] ?? word)
    .join(' ')
  return WORDS[name.split('_')[0] ?? ''] ? text : text.charAt(0).toUpperCase() + text.slice(1)
}

/** A value of a select, as people read it. */
export function formatChoice({ t }: Language, value: string): string {
  return t().choices[value] ?? value.replaceAll('_', ' ')
}
