import type { Option, StorageReq, Template } from '../../../api/schema'
import type { FieldDescription, FieldKind, FieldValues } from '../../../parts/form/field'
import { formatChoice, formatHelp, formatLabel } from '../../../text/labels'
import type { Language } from '../../../text/language.svelte'
import { isSecret } from '../secrets'
import type { Storage } from './storages'

const KINDS: Record<string, FieldKind> = {
  bool: 'boolean',
  number: 'number',
  float: 'number',
  select: 'select',
  text: 'long',
}
const FIRST = 'mount_path' // of the options of all storages, the one that has to be said
/** Options of drivers that few people change: they are folded. Required ones are shown in any case. */
export const RARE_OPTIONS: ReadonlySet<string> = new Set(
  (
    'add_filename_to_disposition allowed_hosts custom_host cwd_list details_pass_through direct_upload_host ' +
    'directory_size download_concurrency download_part_size enable_custom_host_presign enable_direct_upload ' +
    'file_consistency_check head_size host_key ignore_symlink_error list_object_version mkdir_perm ' +
    'placeholder presign_endpoint provider_pass_through recycle_bin_path remove_bucket security_token session_token ' +
    'sign_url_expire temp_url_hash_algorithm temp_url_key thumb_cache_folder thumb_concurrency ' +
    'tls_insecure_skip_verify trash_max_size user_agent video_thumb_pos'
  ).split(' '),
)

/** The fields of a storage's form in three groups. */
export interface FormFields {
  first: FieldDescription[]
  driver: FieldDescription[]
  more: FieldDescription[]
}

export function listFields(language: Language, { common, additional }: Template): FormFields {
  const describeOption = (option: Option) => describe(language, option)
  const isRare = ({ name, required }: Option) => RARE_OPTIONS.has(name) && !required
  return {
    first: common.filter((item) => item.name === FIRST).map(describeOption),
    driver: additional.filter((item) => !isRare(item)).map(describeOption),
    more: [...additional.filter(isRare), ...common.filter((item) => item.name !== FIRST)].map(describeOption),
  }
}

/** Return an option as a field. */
export function describe(
  language: Language,
  { name, type, options, required, help, default: value }: Option,
): FieldDescription {
  const field = {
    name,
    kind: findKind(name, type),
    label: formatLabel(language, name),
    help: formatHelp(language, help),
    required,
  }
  if (field.kind !== 'select') return field
  const choices = options.split(',').map((item) => ({ value: item, text: formatChoice(language, item) }))
  return { ...field, options: required && value ? choices : [{ value: '', text: '–' }, ...choices] }
}

function findKind(name: string, type: string): FieldKind {
  if (!isSecret(name)) return KINDS[type] ?? 'text'
  return type === 'text' ? 'secretLong' : type === 'string' ? 'secret' : (KINDS[type] ?? 'text')
}

/** The values that a form begins with: those of a storage, or the defaults of a new one. */
export function readValues(template: Template, storage: Storage | null): FieldValues {
  const options = parseAddition(storage?.addition ?? '')
  const own = template.additional.map((option) => [option.name, read(options[option.name], option, storage)])
  const row: Record<string, unknown> = { ...storage }
  const common = template.common.map((option) => [option.name, read(row[option.name], option, storage)])
  return { ...Object.fromEntries(own), ...Object.fromEntries(common) }
}

function read(value: unknown, option: Option, storage: Storage | null): string {
  const chosen = storage ? (value ?? '') : option.default
  return option.type === 'bool' ? String(chosen === true || chosen === 'true') : String(chosen)
}

/** The storage that the values make. What the form does not show stays as it is. */
export function writeValues(
  driver: string,
  template: Template,
  values: FieldValues,
  storage: Storage | null,
): StorageReq {
  const addition = { ...parseAddition(storage?.addition ?? ''), ...write(template.additional, values) }
  const common: Partial<StorageReq> = write(template.common, values)
  return { mount_path: values.mount_path ?? '', driver, ...common, addition: JSON.stringify(addition) }
}

function write(options: readonly Option[], values: FieldValues): Record<string, string | number | boolean> {
  return Object.fromEntries(options.map((option) => [option.name, convert(option, values[option.name] ?? '')]))
}

function convert({ name, type }: Option, value: string): string | number | boolean {
  const kind = findKind(name, type)
  if (kind === 'boolean') return value === 'true'
  return kind === 'number' ? Number(value) : value
}

/** The options of a driver; none where the stored text is damaged, as its status says then. */
function parseAddition(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? { ...value } : {}
  } catch {
    return {}
  }
}

/** The field that a message of the service is about, '' for none. */
export function findNamedField(message: string, fields: readonly FieldDescription[]): string {
  return fields.find(({ name }) => new RegExp(`\\boption ${name}\\b|^${name} must be`).test(message))?.name ?? ''
}
