import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { waitForZip } from '../src/api/zips'

type Answer = [status: number, headers: Record<string, string>]

const LATER: Answer = [404, { 'retry-after': '0' }]
let server: Server | undefined
let requests: string[] = []

/** The address of a server that gives these answers, one after the other. */
async function serve(...answers: Answer[]): Promise<string> {
  requests = []
  server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`)
    const [status, headers] = answers[requests.length - 1] ?? [500, {}]
    response.writeHead(status, headers).end()
  })
  await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/sd/abc/?zip=task`
}

afterEach(() => server?.close())

describe('a ZIP that a task makes for a visitor', () => {
  test('is waited for until the service redirects to it', async () => {
    const address = await serve(LATER, LATER, [302, { location: '/elsewhere' }])
    await waitForZip(address, () => true)
    expect(requests).toEqual(Array(3).fill('HEAD /sd/abc/?zip=task'))
  })

  test('has failed when the link has ended', async () => {
    const address = await serve(LATER, [404, {}])
    await expect(waitForZip(address, () => true)).rejects.toMatchObject({ kind: 'broken' })
    expect(requests).toHaveLength(2)
  })

  test('is not waited for when the dialog is closed', async () => {
    const address = await serve(LATER)
    await waitForZip(address, () => requests.length === 0)
    expect(requests).toHaveLength(1)
  })

  test('cannot be waited for without the service', async () => {
    const address = await serve()
    server?.close()
    await expect(waitForZip(address, () => true)).rejects.toMatchObject({ kind: 'offline' })
  })
})
