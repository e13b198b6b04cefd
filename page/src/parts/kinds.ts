/** The viewer of a file. */
export type Kind =
  | 'archive'
  | 'audio'
  | 'document'
  | 'font'
  | 'html'
  | 'image'
  | 'markdown'
  | 'pdf'
  | 'text'
  | 'unknown'
  | 'video'

const BY_TYPE: Record<number, Kind> = { 2: 'video', 3: 'audio', 4: 'text', 5: 'image' } // the service's codes
const ENDINGS: Record<string, Kind> = {
  ...list('html', 'htm html xhtml'),
  ...list('font', 'otf ttf woff woff2'),
  ...list('image', 'avif bmp gif ico jfif jpeg jpg png svg webp'),
  ...list('markdown', 'markdown md mdown mkd'),
  ...list('pdf', 'pdf'),
  ...list('audio', 'aac flac m4a mp3 oga ogg opus wav'),
  ...list('video', 'm4v mkv mov mp4 ogv webm'),
  ...list(
    'text',
    'adoc ass bash bat c cc cfg cjs clj cmake cmd conf cpp cs css cxx dart diff editorconfig el env erl ex f90 fs ' +
      'gitattributes gitignore go gradle graphql groovy h hpp hs htaccess ini ipynb java jl js json json5 jsonl jsx kt kts ' +
      'less lock log lrc lua m m3u m3u8 mjs mk mm nfo nim nix patch php pl po properties proto ps1 py r rb rs rst rtf sass ' +
      'scala scss service sh sql srt ssa strm sub sv svelte swift tcl tex tf toml tsx txt v vb vim vtt vue xml xsd xsl ' +
      'yaml yml zig zsh',
  ),
}
/** The readers of formats that the browser does not show, by ending. */
const READERS: Record<string, string> = {
  csv: 'csv',
  tsv: 'csv',
  docx: 'docx',
  epub: 'epub',
  odp: 'opendocument',
  odt: 'opendocument',
  parquet: 'parquet',
  pptx: 'slides',
  ...Object.fromEntries('ods xls xlsb xlsm xlsx'.split(' ').map((ending) => [ending, 'sheet'])),
  ...Object.fromEntries('db db3 sqlite sqlite3'.split(' ').map((ending) => [ending, 'sqlite'])),
  heic: 'heic',
  heif: 'heic',
  ...Object.fromEntries('arw cr2 cr3 dng nef orf raf rw2'.split(' ').map((ending) => [ending, 'raw'])),
}
const PICTURE_READERS = ['heic', 'raw'] // what they read is shown as other pictures are
const NAMES =
  /^(authors|changelog|copying|dockerfile|gemfile|jenkinsfile|licen[cs]e|makefile|notice|readme|todo|vagrantfile)$/i

function list(kind: Kind, endings: string): Record<string, Kind> {
  return Object.fromEntries(endings.split(' ').map((ending) => [ending, kind]))
}

/** The part of a name behind its last dot, in small letters; '' without one. */
export function findEnding(name: string): string {
  return name.includes('.') ? name.slice(name.lastIndexOf('.') + 1).toLowerCase() : ''
}

/** Return the viewer of a file by its name and type code. `archives`: the endings of archives, each with its dot. */
export function findKind(name: string, type: number, archives: readonly string[]): Kind {
  const ending = findEnding(name)
  const isArchive = archives.some((suffix) => name.toLowerCase().endsWith(suffix))
  if (isArchive) return 'archive'
  const reader = findReader(name)
  if (reader) return PICTURE_READERS.includes(reader) ? 'image' : 'document'
  if (Object.hasOwn(ENDINGS, ending)) return ENDINGS[ending] ?? 'unknown'
  return NAMES.test(name) ? 'text' : (BY_TYPE[type] ?? 'unknown')
}

/** Return the name of the reader of a file; '' for a file that the browser shows, or nobody. */
export function findReader(name: string): string {
  const ending = findEnding(name)
  return Object.hasOwn(READERS, ending) ? (READERS[ending] ?? '') : ''
}

/** True if a file that is shown can be read as a text too. */
export function hasSource(name: string, kind: Kind): boolean {
  return kind === 'html' || kind === 'markdown' || ['csv', 'svg', 'tsv'].includes(findEnding(name))
}
