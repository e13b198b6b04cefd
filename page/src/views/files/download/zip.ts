import { makeZip } from 'client-zip'
import { listEntries } from '../../../api/files'
import { join } from '../../../api/paths'
import type { FileObject } from '../../../api/schema'
import { passwords } from '../../../state/passwords'
import { fetchFile } from './fetch'

type Entry = Pick<FileObject, 'name' | 'is_dir' | 'modified'>

export interface Packing {
  folder: string
  entries: readonly Entry[]
  signal: AbortSignal
  /** Told of every file that is begun. */
  onfile: (name: string) => void
  /** Told of what could not be had, by its path in the ZIP: the rest is packed all the same. */
  onfail: (name: string) => void
}

interface Item {
  name: string // in the ZIP; of a folder with / at its end
  path: string
  modified: Date
}

/** Entries of a folder and what is below them as a ZIP, read from the service as it is written away. */
export function packZip(packing: Packing): ReadableStream<Uint8Array> {
  return makeZip(readItems(packing))
}

async function* readItems(packing: Packing) {
  const { folder, entries, signal, onfile, onfail } = packing
  for await (const item of walk(folder, entries, '', packing)) {
    if (item.name.endsWith('/')) {
      yield { name: item.name, lastModified: item.modified }
      continue
    }
    onfile(item.name)
    try {
      yield { name: item.name, lastModified: item.modified, input: await fetchFile(item.path, signal) }
    } catch (thrown) {
      if (signal.aborted) throw thrown
      onfail(item.name)
    }
  }
}

/** The entries, and those of their folders as they are come to. */
export async function* walk(
  folder: string,
  entries: Iterable<Entry> | AsyncIterable<Entry>,
  prefix: string,
  { signal, onfail }: Pick<Packing, 'signal' | 'onfail'>,
): AsyncGenerator<Item> {
  try {
    for await (const entry of entries) {
      const path = join(folder, entry.name)
      const name = prefix + entry.name
      const modified = readDate(entry.modified)
      if (!entry.is_dir) yield { name, path, modified }
      else {
        yield { name: `${name}/`, path, modified }
        yield* walk(path, listEntries(path, passwords.find(path), signal), `${name}/`, { signal, onfail })
      }
    }
  } catch (thrown) {
    if (signal.aborted) throw thrown
    onfail(prefix)
  }
}

/** A ZIP knows no time before 1980; the service says year 1 for unknown. */
function readDate(moment: string): Date {
  const date = new Date(moment)
  return date.getFullYear() >= 1980 ? date : new Date(1980, 0, 1)
}
