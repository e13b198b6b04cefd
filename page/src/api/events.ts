import type { ApiClient } from './client'
import type { TaskRow } from './schema'

export interface EventData {
  ready: { path: string }
  folder: { path: string }
  tasks: { kind: string; tasks: TaskRow[]; ended: string[] }
  storages: { storages: { mount_path: string; status: string }[] }
  end: { code: number; message: string }
}
export type Event = { [Name in keyof EventData]: { name: Name; data: EventData[Name] } }[keyof EventData]
export type Outcome = 'lost' | 'refused' | 'unsupported'

const NAMES: readonly string[] = ['ready', 'folder', 'tasks', 'storages', 'end'] satisfies Event['name'][]
const MAX_EVENT_LENGTH = 4 << 20 // letters

/**
 * Tell the events of a folder until the stream ends. `lost`: try again; `refused`: the rights are not there, or not any
 * more; `unsupported`: the service has no events.
 */
export async function followEvents(
  api: ApiClient,
  path: string,
  password: string,
  signal: AbortSignal,
  tell: (event: Event) => void,
): Promise<Outcome> {
  const headers = new Headers(api.token ? { authorization: api.token } : {})
  if (/^[\x20-\x7e]+$/.test(password)) headers.set('password', password)
  let hasEnded = false
  try {
    const answer = await fetch(`/api/events?${new URLSearchParams({ path })}`, { headers, signal, cache: 'no-store' })
    if (!answer.headers.get('content-type')?.startsWith('text/event-stream') || !answer.body) {
      return await readRefusal(answer)
    }
    for await (const event of readEvents(answer.body)) {
      hasEnded ||= event.name === 'end'
      tell(event)
    }
  } catch {
    return 'lost'
  }
  return hasEnded ? 'refused' : 'lost'
}

/** Too many streams, or a service that is starting: later. */
async function readRefusal(answer: Response): Promise<Outcome> {
  const { code } = (await answer.json()) as { code?: number }
  if (code === 404) return 'unsupported'
  return code === 429 || code === undefined || code >= 500 ? 'lost' : 'refused'
}

async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<Event> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let text = ''
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      text += decoder.decode(value, { stream: true })
      const blocks = text.split('\n\n')
      text = blocks.pop() ?? ''
      if (text.length > MAX_EVENT_LENGTH) return
      for (const block of blocks) {
        const event = parseEvent(block)
        if (event) yield event
      }
    }
  } finally {
    await reader.cancel().catch(() => {})
  }
}

/** The event of a block; null for a comment, a pause, or an event of a later version. */
export function parseEvent(block: string): Event | null {
  const fields = new Map<string, string>()
  for (const line of block.split('\n')) {
    const end = line.indexOf(': ')
    if (end > 0) fields.set(line.slice(0, end), line.slice(end + 2))
  }
  const [name, data] = [fields.get('event'), fields.get('data')]
  if (name === undefined || data === undefined || !NAMES.includes(name)) return null
  return { name, data: JSON.parse(data) } as Event
}
