import { describe, expect, it } from 'vitest'
import { isHandheld, readDevice } from '../src/parts/device'

const MOZILLA = 'Mozilla/5.0'

describe('readDevice', () => {
  it.each([
    [`${MOZILLA} (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0`, 'Firefox', 'Linux'],
    [
      `${MOZILLA} (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/139.0 Safari/537.36 Edg/139.0`,
      'Edge',
      'Windows',
    ],
    [
      `${MOZILLA} (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/139.0 Mobile Safari/537.36`,
      'Chrome',
      'Android',
    ],
    [
      `${MOZILLA} (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1`,
      'Safari',
      'iPhone',
    ],
    [
      `${MOZILLA} (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15`,
      'Safari',
      'macOS',
    ],
    ['curl/8.14.1', 'curl', ''],
    ['python-httpx/0.28.1', 'python-httpx', ''],
    [`${MOZILLA} (unknown)`, '', ''],
    ['', '', ''],
  ])('reads %s', (userAgent, program, system) => {
    expect(readDevice(userAgent)).toEqual([program, system])
  })

  it('knows what is carried about', () => {
    expect(['iPhone', 'iPad', 'Android', 'Linux', ''].map(isHandheld)).toEqual([true, true, true, false, false])
  })
})
