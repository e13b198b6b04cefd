import { strFromU8, type Unzipped, unzipSync } from 'fflate'
import { MAX_UNPACKED_BYTES } from './protocol'

/** Unpack the members that `isNeeded` names. Throws Error for a file that says it is larger than MAX_UNPACKED_BYTES. */
export function unpack(bytes: ArrayBuffer, isNeeded: (name: string) => boolean): Unzipped {
  let total = 0
  return unzipSync(new Uint8Array(bytes), {
    filter({ name, originalSize }) {
      total += originalSize
      if (total > MAX_UNPACKED_BYTES) throw new Error('The document is too large.')
      return isNeeded(name)
    },
  })
}

/** Throw Error for a document that says it is larger than MAX_UNPACKED_BYTES when it is unpacked. */
export function checkSize(bytes: ArrayBuffer): void {
  unpack(bytes, () => false)
}

export function readText(members: Unzipped, name: string): string {
  const member = members[name]
  return member ? strFromU8(member) : ''
}

const PICTURES: Record<string, string> = {
  gif: 'image/gif',
  jpeg: 'image/jpeg',
  jpg: 'image/jpeg',
  png: 'image/png',
  svg: 'image/svg+xml',
  webp: 'image/webp',
}

export function isPicture(name: string): boolean {
  return findPictureType(name) !== undefined
}

function findPictureType(name: string): string | undefined {
  return PICTURES[name.slice(name.lastIndexOf('.') + 1).toLowerCase()]
}

/** A member as a data address; '' for what is no picture. */
export function makePictureAddress(members: Unzipped, name: string): string {
  const member = members[name]
  const type = findPictureType(name)
  if (!member || !type) return ''
  let binary = ''
  for (let start = 0; start < member.length; start += 8192)
    binary += String.fromCharCode(...member.subarray(start, start + 8192))
  return `data:${type};base64,${btoa(binary)}`
}

/** Resolve an address relative to the member that names it. */
export function resolve(base: string, address: string): string {
  const url = new URL(address.split('#')[0] ?? '', `http://document/${base}`)
  return decodeURIComponent(url.pathname.slice(1))
}
