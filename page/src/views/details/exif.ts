import { load } from 'exifreader'
import { fetchStart } from '../../api/bytes'

const HEAD_BYTES = 256 * 1024 // of a picture, in which cameras write what they know

export interface PictureFacts {
  width: number
  height: number
  facts: [key: 'camera' | 'lens' | 'taken' | 'exposure' | 'aperture' | 'iso' | 'focal' | 'position', text: string][]
}

/** What a camera has written into a picture; null if nothing can be read. Throws Problem. */
export async function readPicture(address: string, signal: AbortSignal): Promise<PictureFacts | null> {
  const { bytes } = await fetchStart(address, HEAD_BYTES, signal)
  try {
    return describe(load(bytes.slice().buffer, { expanded: true }))
  } catch {
    return null
  }
}

type Tags = ReturnType<typeof loadExpanded>
function loadExpanded(buffer: ArrayBuffer) {
  return load(buffer, { expanded: true })
}

function describe({ exif, file, png, gps, riff }: Tags): PictureFacts {
  const text = (tag: { description: number | string } | undefined) => String(tag?.description ?? '').trim()
  const width = Number(file?.['Image Width']?.value ?? png?.['Image Width']?.value ?? riff?.ImageWidth?.value ?? 0)
  const height = Number(file?.['Image Height']?.value ?? png?.['Image Height']?.value ?? riff?.ImageHeight?.value ?? 0)
  const make = text(exif?.Make)
  const model = text(exif?.Model)
  const position = gps?.Latitude !== undefined && gps.Longitude !== undefined
  const facts: PictureFacts['facts'] = [
    ['camera', model.startsWith(make) ? model : `${make} ${model}`.trim()],
    ['lens', text(exif?.LensModel)],
    ['taken', text(exif?.DateTimeOriginal).replace(/^(\d{4}):(\d\d):/, '$1-$2-')],
    ['exposure', exif?.ExposureTime ? `${text(exif.ExposureTime)} s` : ''],
    ['aperture', text(exif?.FNumber)],
    ['iso', text(exif?.ISOSpeedRatings)],
    ['focal', text(exif?.FocalLength)],
    ['position', position ? `${gps.Latitude?.toFixed(5)}, ${gps.Longitude?.toFixed(5)}` : ''],
  ]
  return { width, height, facts: facts.filter(([, value]) => value) }
}
