import openLibrary from 'libheif-js/libheif-wasm/libheif.js'
import { serve } from './protocol'

/** What its types leave out. */
interface Library {
  HeifDecoder: new () => { decode: (bytes: Uint8Array) => HeifImage[] }
}
interface HeifImage {
  is_primary: () => boolean
  get_width: () => number
  get_height: () => number
  display: (target: ImageData, done: (filled: ImageData | null) => void) => void
}

const MAX_PIXELS = 64_000_000 // of the picture: each takes 4 bytes, twice
const QUALITY = 0.92

/** The main picture of a HEIC file as JPEG: browsers other than Safari do not show HEIC. */
serve(async ({ bytes, module }) => {
  const library = openLibrary({ wasmBinary: module }) as unknown as Library
  const images = new library.HeifDecoder().decode(new Uint8Array(bytes))
  const image = images.find((candidate) => candidate.is_primary()) ?? images[0]
  if (!image) throw new Error('There is no picture in this file.')
  const [width, height] = [image.get_width(), image.get_height()]
  if (!(width > 0 && height > 0 && width * height <= MAX_PIXELS)) throw new Error('The picture has too many pixels.')
  const pixels = new ImageData(width, height)
  const filled = await new Promise<ImageData | null>((resolve) => image.display(pixels, resolve))
  if (!filled) throw new Error('The picture cannot be decoded.')
  const canvas = new OffscreenCanvas(width, height)
  canvas.getContext('2d')?.putImageData(pixels, 0, 0)
  return { kind: 'picture', picture: await canvas.convertToBlob({ type: 'image/jpeg', quality: QUALITY }) }
})
