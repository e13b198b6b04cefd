import type { Stores } from './stores'

/** True if the user may write in a folder, as far as its listing tells; not where it cannot be listed. */
export async function mayWriteIn({ api, passwords, session }: Stores, folder: string): Promise<boolean> {
  const body = { path: folder, password: passwords.find(folder), page: 1, per_page: 1, refresh: false }
  try {
    const about = await api.call('post', '/api/fs/list', { body })
    return about.write && (session.may('write') || about.write_content_bypass)
  } catch {
    return false
  }
}
