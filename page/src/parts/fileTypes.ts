import { findEnding } from './kinds'

/** The type of a file as its icon shows it. */
export type FileType =
  | 'archive'
  | 'audio'
  | 'book'
  | 'code'
  | 'data'
  | 'document'
  | 'folder'
  | 'font'
  | 'image'
  | 'pdf'
  | 'sheet'
  | 'slides'
  | 'text'
  | 'unknown'
  | 'video'

const BY_CODE: FileType[] = ['unknown', 'folder', 'video', 'audio', 'text', 'image'] // the service's codes
const ENDINGS: Record<string, FileType> = {
  ...list('archive', '7z bz2 cab deb dmg gz iso jar lz4 rar rpm tar tbz2 tgz txz xz zip zst'),
  ...list('audio', 'aac aiff flac m4a mid midi mp3 oga ogg opus wav wma'),
  ...list('book', 'azw3 epub fb2 mobi'),
  ...list(
    'code',
    'bash bat c cc cjs clj cpp cs css cxx dart ex fs go graphql groovy h hpp hs htm html java jl js json json5 jsonl jsx kt ' +
      'kts lua m mjs mm nim php pl proto ps1 py r rb rs sass scala scss sh sql svelte swift tcl toml ts tsx v vb vim vue ' +
      'xml xsl yaml yml zig zsh',
  ),
  ...list('data', 'avro db db3 feather orc parquet sqlite sqlite3'),
  ...list('document', 'doc docm docx odt pages rtf'),
  ...list('font', 'otf ttc ttf woff woff2'),
  ...list(
    'image',
    'ai arw avif bmp cr2 cr3 dng gif heic heif ico jfif jpeg jpg nef orf png psd raf raw rw2 svg tif tiff webp',
  ),
  ...list('pdf', 'pdf'),
  ...list('sheet', 'csv numbers ods tsv xls xlsb xlsm xlsx'),
  ...list('slides', 'key odp ppt pptm pptx'),
  ...list('text', 'adoc conf ini log markdown md rst txt'),
  ...list('video', 'avi m4v mkv mov mp4 mpeg mpg ogv webm wmv'),
}

function list(type: FileType, endings: string): Record<string, FileType> {
  return Object.fromEntries(endings.split(' ').map((ending) => [ending, type]))
}

/** Return the type of an entry by its name, or by the service's code for a name that says nothing. */
export function findFileType(entry: { is_dir: boolean; name: string; type: number } | undefined): FileType {
  if (!entry) return 'unknown'
  if (entry.is_dir) return 'folder'
  const ending = findEnding(entry.name)
  const type = Object.hasOwn(ENDINGS, ending) ? ENDINGS[ending] : BY_CODE[entry.type]
  return type && type !== 'folder' ? type : 'unknown'
}
