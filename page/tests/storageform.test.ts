import { beforeAll, expect, test } from 'vitest'
import type { Option, Template } from '../src/api/schema'
import { Language } from '../src/text/language.svelte'
import { isSecret } from '../src/views/manage/secrets'
import { findNamedField, listFields, readValues, writeValues } from '../src/views/manage/storages/form'
import { findState, parseHostKeyChange, type Storage } from '../src/views/manage/storages/storages'

const option = (name: string, type = 'string', more: Partial<Option> = {}): Option => ({
  name, type, default: '', options: '', required: false, help: '', ...more,
}) // biome-ignore format: one line

const template = {
  common: [option('mount_path', 'string', { required: true }), option('order', 'number'), option('web_proxy', 'bool')],
  additional: [
    option('host'),
    option('password'),
    option('private_key', 'text'),
    option('port', 'number', { default: '22' }),
    option('mode', 'select', { options: 'a,b', default: 'a', required: true }),
    option('sort', 'select', { options: 'name,size' }),
    option('hidden', 'bool', { default: 'true' }),
  ],
} as Template

const storage = {
  id: 7, mount_path: '/x', order: 3, web_proxy: true, driver: 'D', disabled: false, status: 'work',
  addition: '{"host":"h","password":"p","port":2200,"mode":"b","hidden":false,"token_of_its_own":"kept"}',
} as Storage // biome-ignore format: one line

const language = new Language()
beforeAll(async () => await language.withLateTexts(Promise.resolve()))

test('a form asks for what the descriptors say', () => {
  const { first, driver, more } = listFields(language, template)
  expect(first.map((field) => field.name)).toEqual(['mount_path'])
  expect(driver.map((field) => field.kind)).toEqual([
    'text', 'secret', 'secretLong', 'number', 'select', 'select', 'boolean',
  ]) // biome-ignore format: one line
  expect(driver[4]?.options?.map((choice) => choice.value)).toEqual(['a', 'b'])
  expect(driver[5]?.options?.map((choice) => choice.value)).toEqual(['', 'name', 'size'])
  expect(more.map((field) => field.name)).toEqual(['order', 'web_proxy'])
})

test('options that few people change are folded, unless they are required', () => {
  const additional = [option('thumb_concurrency'), option('mkdir_perm', 'string', { required: true }), option('host')]
  const { driver, more } = listFields(language, { ...template, additional })
  expect(driver.map((field) => field.name)).toEqual(['mkdir_perm', 'host'])
  expect(more.map((field) => field.name)).toEqual(['thumb_concurrency', 'order', 'web_proxy'])
})

test('a new storage begins with the defaults', () => {
  expect(readValues(template, null)).toMatchObject({ port: '22', mode: 'a', hidden: 'true', web_proxy: 'false' })
})

test('what is not changed is written as it was, types and hidden options too', () => {
  const { addition, ...row } = writeValues('D', template, readValues(template, storage), storage)
  expect(row).toEqual({ mount_path: '/x', driver: 'D', order: 3, web_proxy: true })
  expect(JSON.parse(addition ?? '')).toMatchObject(JSON.parse(storage.addition))
})

test('a damaged addition gives an empty form', () => {
  expect(readValues(template, { ...storage, addition: '{nonsense' })).toMatchObject({ host: '' })
})

test('the field that a message names is found', () => {
  const { driver } = listFields(language, template)
  expect(findNamedField('option port: Input should be a valid integer', driver)).toBe('port')
  expect(findNamedField('the option host is empty', driver)).toBe('host')
  expect(findNamedField('no route to the host', driver)).toBe('')
})

test('states', () => {
  expect(findState(storage)).toBe('working')
  expect(findState({ ...storage, disabled: true })).toBe('disabled')
  expect(findState({ ...storage, status: '' })).toBe('starting')
  expect(findState({ ...storage, status: 'no such host' })).toBe('failed')
})

test('the keys in a refusal', () => {
  const text = "the server's host key has changed: it was SHA256:a/b and is SHA256:c+d now. Somebody may be in between"
  expect(parseHostKeyChange(text)).toEqual({ before: 'SHA256:a/b', now: 'SHA256:c+d' })
  expect(parseHostKeyChange('no such host')).toBeNull()
})

test.each(['access_key_id', 'secret_id', 'bucket_id', 'host_key', 'username', 'ftp_tls_private_key_path'])(
  '%s is no secret',
  (name) => expect(isSecret(name)).toBe(false),
)
