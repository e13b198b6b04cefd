import { join, parent } from '../../api/paths'
import type { Stores } from '../stores'
import type { FoundFile, UploadQueue } from '../uploads.svelte'

const QUEUE_BATCH_SIZE = 200 // uploads that are queued together, so that the first begin while a large folder is still read

/** Files that were chosen; those of a chosen folder know where in it they lie. */
export function addPicked(uploads: UploadQueue, folder: string, files: readonly File[]): void {
  const selection = files.map((file) => {
    const path = join(folder, file.webkitRelativePath || file.name)
    return { folder: parent(path), name: file.name, file }
  })
  uploads.add(uploads.begin(folder), selection)
}

/** Files and folders that were dropped, with all that is in the folders; empty ones count as well. */
export async function addDropped(
  { language, toasts }: Pick<Stores, 'language' | 'toasts'>,
  uploads: UploadQueue,
  folder: string,
  dropped: readonly (FileSystemEntry | File)[],
): Promise<void> {
  const batch = uploads.begin(folder)
  const unreadable: string[] = []
  let selection: FoundFile[] = []
  uploads.reading++
  for await (const entry of walk(folder, dropped, unreadable)) {
    selection.push(entry)
    if (selection.length < QUEUE_BATCH_SIZE) continue
    uploads.add(batch, selection)
    selection = []
  }
  uploads.reading--
  uploads.add(batch, selection)
  const [first] = unreadable
  if (first !== undefined) toasts.show('failed', language.t().uploads.unreadable(unreadable.length, first))
}

/** All files, and the folders that are empty; `unreadable` takes the names of what this device does not give out. */
export async function* walk(
  folder: string,
  entries: readonly (FileSystemEntry | File)[],
  unreadable: string[],
): AsyncGenerator<FoundFile> {
  for (const entry of entries) {
    const { name } = entry
    try {
      if (entry instanceof File) yield { folder, name, file: entry }
      else if (isFile(entry)) yield { folder, name, file: await openFile(entry) }
      else if (isDirectory(entry)) {
        const inside = await readFolder(entry)
        if (inside.length === 0) yield { folder, name, file: null }
        else yield* walk(join(folder, name), inside, unreadable)
      }
    } catch {
      unreadable.push(name)
    }
  }
}

function isDirectory(entry: FileSystemEntry): entry is FileSystemDirectoryEntry {
  return entry.isDirectory
}

function isFile(entry: FileSystemEntry): entry is FileSystemFileEntry {
  return entry.isFile
}

function openFile(entry: FileSystemFileEntry): Promise<File> {
  return new Promise((resolve, reject) => entry.file(resolve, reject))
}

/** A reader gives some entries at a time, and none when there are no more. */
async function readFolder(entry: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = entry.createReader()
  const all: FileSystemEntry[] = []
  while (true) {
    const read = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject))
    if (read.length === 0) return all
    all.push(...read)
  }
}
