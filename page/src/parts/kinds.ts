/** The viewer of a file. */
export type Kind = 'archive' | 'audio' | 'html' | 'image' | 'markdown' | 'pdf' | 'text' | 'unknown' | 'video'

const BY_TYPE: Record<number, Kind> = { 2: 'video', 3: 'audio', 4: 'text', 5: 'image' } // the service's codes
const ENDINGS: Record<string, Kind> = {
  ...list('html', 'htm html xhtml'),
  ...list('image', 'avif bmp gif ico jfif jpeg jpg png svg webp'),
  ...list('markdown', 'markdown md mdown mkd'),
  ...list('pdf', 'pdf'),
  ...list('audio', 'aac flac m4a mp3 oga ogg opus wav'),
  ...list('video', 'm4v mkv mov mp4 ogv webm'),
  ...list(
    'text',
    'adoc ass bash bat c cc cfg cjs clj cmake cmd conf cpp cs css csv cxx dart diff editorconfig el env erl ex f90 fs ' +
      'gitattributes gitignore go gradle graphql groovy h hpp hs htaccess ini ipynb java jl js json json5 jsonl jsx kt kts ' +
      'less lock log lrc lua m m3u m3u8 mjs mk mm nfo nim nix patch php pl po properties proto ps1 py r rb rs rst rtf sass ' +
      'scala scss service sh sql srt ssa strm sub sv svelte swift tcl tex tf toml tsv tsx txt v vb vim vtt vue xml xsd xsl ' +
      'yaml yml zig zsh',
  ),
}
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
  if (Object.hasOwn(ENDINGS, ending)) return ENDINGS[ending] ?? 'unknown'
  return NAMES.test(name) ? 'text' : (BY_TYPE[type] ?? 'unknown')
}

/** True if a file that is shown can be read as a text too. */
export function hasSource(name: string, kind: Kind): boolean {
  return kind === 'html' || kind === 'markdown' || findEnding(name) === 'svg'
}
