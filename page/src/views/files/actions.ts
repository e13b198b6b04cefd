import type { FileObject } from '../../api/schema'
import { findShareId } from '../../api/sharepaths'
import type { MenuItem } from '../../parts/menu'
import type { Stores } from '../../state/stores'
import { listUploadActions } from '../uploads/actions'
import { downloadFile, downloadShared, report } from './links'

/** A folder, and what its listing says about writing; null while it is not listed. A Folder is one. */
export interface Place {
  readonly path: string
  readonly about: { readonly write: boolean; readonly write_content_bypass: boolean } | null
}

/** The subject of actions: the selected entries of a folder. `entry`: the entry, if exactly one is selected. */
export interface Chosen {
  folder: Place
  path: string // of `entry`
  entry: FileObject | undefined
  count: number
  /** All of them, fetched where they are not here. Throws Problem. */
  entries: () => Promise<FileObject[]>
}

/** A dialog that is wanted: FolderDialogs shows it. */
export type DialogName =
  | 'copy'
  | 'download'
  | 'gather'
  | 'link'
  | 'move'
  | 'newFile'
  | 'newFolder'
  | 'offlineDownload'
  | 'remove'
  | 'removeEmpty'
  | 'rename'
  | 'renameAll'
  | 'share'
  | 'unpack'
  | 'versions'
export type Ask = (what: DialogName) => void

const MAX_LINKS = 100 // each is asked for by itself

/** True if something new may be put into the folder. */
export function mayWriteIn({ session }: Stores, { path, about }: Place): boolean {
  if (findShareId(path)) return Boolean(about?.write) // as the share says, with or without an account
  return Boolean(about?.write && (session.may('write') || about.write_content_bypass))
}

/** The actions for the chosen entries, in the order of the menu. Actions without a right are left out. */
export function listActions(stores: Stores, chosen: Chosen, open: () => void, ask: Ask): MenuItem[] {
  const { language, session, site } = stores
  const { t } = language
  const { entry, count, path, folder } = chosen
  if (count === 0) return []
  const text = t().files
  const isInShare = findShareId(folder.path) !== ''
  const mayChange = !isInShare && (folder.about?.write ?? true)
  const isFile = entry && !entry.is_dir
  const mayPack = !isFile && (count > 1 || site.isOn('package_download'))
  const mayRename = mayChange && session.may('rename')
  return keep([
    entry && { text: text.open, icon: entry.is_dir ? 'folder' : 'file', run: open },
    isFile && { text: text.download, icon: 'download', run: () => report(stores, downloadFile(stores, path)) },
    mayPack && {
      text: text.download,
      icon: 'download',
      run: () => (isInShare && entry ? report(stores, downloadShared(stores, path, entry.name)) : ask('download')),
    },
    !isInShare && session.may('share') && { text: t().share.verb, icon: 'share', run: () => ask('share') },
    !isInShare &&
      count <= MAX_LINKS && {
        text: count > 1 ? t().changes.copyLinks : text.copyLink,
        icon: 'link',
        run: () => ask('link'),
      },
    !isInShare &&
      isFile &&
      mayUnpack(stores, entry) && { text: t().unpack.verb, icon: 'archive', run: () => ask('unpack') },
    !isInShare && isFile && { text: t().versions.verb, icon: 'history', run: () => ask('versions') },
    mayRename && entry && { text: text.rename, icon: 'rename', run: () => ask('rename') },
    mayRename && !entry && { text: t().renaming.verb, icon: 'rename', run: () => ask('renameAll') },
    mayChange && session.may('move') && { text: t().changes.move, icon: 'move', run: () => ask('move') },
    !isInShare && session.may('copy') && { text: t().changes.copy, icon: 'copy', run: () => ask('copy') },
    mayChange &&
      session.may('delete') && { text: text.remove, icon: 'remove', run: () => ask('remove'), isDangerous: true },
  ])
}

/** True if the entry is an archive that the user may unpack. */
export function mayUnpack({ archives, session }: Stores, entry: FileObject): boolean {
  return session.may('decompress') && archives.has(entry.name)
}

/** The menu "New" of a folder: what brings something into it. Empty where nothing may be brought. */
export function listNewActions(stores: Stores, folder: Place, ask: Ask): MenuItem[] {
  if (findShareId(folder.path)) return []
  const { t } = stores.language
  const mayWrite = mayWriteIn(stores, folder)
  const mayFetch = folder.about?.write && stores.session.may('offlineDownload')
  return keep([
    mayWrite && { text: t().files.newFolder, icon: 'newFolder', run: () => ask('newFolder') },
    mayWrite && { text: t().changes.newFile, icon: 'newFile', run: () => ask('newFile') },
    ...(mayWrite ? listUploadActions(stores, folder.path) : []),
    mayFetch && { text: t().offline.verb, icon: 'cloud', run: () => ask('offlineDownload') },
  ])
}

/** The menu of the folder in view itself, beside "New": what changes many of its entries at once. */
export function listFolderActions({ language, session }: Stores, folder: Place, ask: Ask): MenuItem[] {
  if (!folder.about?.write || findShareId(folder.path)) return []
  const { t } = language
  return keep([
    session.may('rename') && { text: t().renaming.verb, icon: 'rename', run: () => ask('renameAll') },
    session.may('move') && { text: t().gather.verb, icon: 'gather', run: () => ask('gather') },
    session.may('delete') && { text: t().removeEmpty.verb, icon: 'remove', run: () => ask('removeEmpty') },
  ])
}

function keep(items: (MenuItem | false | undefined)[]): MenuItem[] {
  return items.filter((item): item is MenuItem => Boolean(item))
}
