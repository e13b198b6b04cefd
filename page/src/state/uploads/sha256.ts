const BLOCK = 64 // bytes that are added together
const ROUNDS = 64
const PRIMES = listPrimes(ROUNDS)
/** The first 32 bits behind the point of the cube roots of the first primes (FIPS 180-4). */
const CONSTANTS = Int32Array.from(PRIMES, (prime) => takeFraction(Math.cbrt(prime)))
const START = Int32Array.from(PRIMES.slice(0, 8), (prime) => takeFraction(Math.sqrt(prime)))

function listPrimes(count: number): number[] {
  const primes: number[] = []
  for (let number = 2; primes.length < count; number++) {
    if (primes.every((prime) => number % prime !== 0)) primes.push(number)
  }
  return primes
}

function takeFraction(root: number): number {
  return Math.floor((root - Math.floor(root)) * 2 ** 32) | 0
}

/** The SHA-256 of a file of any size, hexadecimal. The digest of the browser needs all bytes in memory at once. */
export function sha256(file: Blob): Promise<string> {
  return sumStream(file.stream())
}

/** The SHA-256 of a stream, hexadecimal. `report` is told the bytes of each piece. */
export async function sumStream(
  stream: ReadableStream<Uint8Array>,
  report: (bytes: number) => void = () => {},
): Promise<string> {
  const sum = new Sha256()
  const reader = stream.getReader()
  for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
    if (!value) continue
    sum.add(value)
    report(value.length)
  }
  return sum.finish()
}

class Sha256 {
  #state = START.slice()
  #words = new Int32Array(ROUNDS)
  #rest = new Uint8Array(BLOCK) // bytes that do not fill a block yet
  #restLength = 0
  #length = 0 // of all bytes

  add(bytes: Uint8Array): void {
    this.#length += bytes.length
    let at = 0
    if (this.#restLength > 0) {
      at = Math.min(BLOCK - this.#restLength, bytes.length)
      this.#rest.set(bytes.subarray(0, at), this.#restLength)
      this.#restLength += at
      if (this.#restLength < BLOCK) return
      this.#addBlocks(this.#rest)
    }
    const end = bytes.length - ((bytes.length - at) % BLOCK)
    this.#addBlocks(bytes.subarray(at, end))
    this.#rest.set(bytes.subarray(end))
    this.#restLength = bytes.length - end
  }

  finish(): string {
    const bits = this.#length * 8
    const zeros = (2 * BLOCK - 9 - this.#restLength) % BLOCK
    const tail = new Uint8Array(1 + zeros + 8)
    tail[0] = 0x80
    const view = new DataView(tail.buffer)
    view.setUint32(1 + zeros, Math.floor(bits / 2 ** 32))
    view.setUint32(5 + zeros, bits >>> 0)
    this.add(tail)
    return Array.from(this.#state, (word) => (word >>> 0).toString(16).padStart(8, '0')).join('')
  }

  #addBlocks(bytes: Uint8Array): void {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    for (let at = 0; at < bytes.length; at += BLOCK) addBlock(this.#state, this.#words, view, at)
  }
}

/** Add a block. With an iterator over the eight words it takes twice as long in V8. */
function addBlock(state: Int32Array, words: Int32Array, view: DataView, at: number): void {
  for (let index = 0; index < 16; index++) words[index] = view.getInt32(at + 4 * index)
  for (let index = 16; index < ROUNDS; index++) {
    const near = read(words, index - 2)
    const far = read(words, index - 15)
    const fromNear = turn(near, 17) ^ turn(near, 19) ^ (near >>> 10)
    const fromFar = turn(far, 7) ^ turn(far, 18) ^ (far >>> 3)
    words[index] = (fromNear + read(words, index - 7) + fromFar + read(words, index - 16)) | 0
  }
  let a = read(state, 0)
  let b = read(state, 1)
  let c = read(state, 2)
  let d = read(state, 3)
  let e = read(state, 4)
  let f = read(state, 5)
  let g = read(state, 6)
  let h = read(state, 7)
  for (let round = 0; round < ROUNDS; round++) {
    const mixed = ((turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + (g ^ (e & (f ^ g)))) | 0
    const first = (h + mixed + read(CONSTANTS, round) + read(words, round)) | 0
    const second = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) | (c & (a | b)))) | 0
    h = g
    g = f
    f = e
    e = (d + first) | 0
    d = c
    c = b
    b = a
    a = (first + second) | 0
  }
  state[0] = read(state, 0) + a
  state[1] = read(state, 1) + b
  state[2] = read(state, 2) + c
  state[3] = read(state, 3) + d
  state[4] = read(state, 4) + e
  state[5] = read(state, 5) + f
  state[6] = read(state, 6) + g
  state[7] = read(state, 7) + h
}

function turn(word: number, bits: number): number {
  return (word >>> bits) | (word << (32 - bits))
}

function read(words: Int32Array, index: number): number {
  return words[index] as number
}
