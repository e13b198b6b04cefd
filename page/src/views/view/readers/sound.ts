import { parseBuffer, selectCover } from 'music-metadata'
import { serve } from './protocol'

/** The tags of a sound, from its first bytes. */
serve(async ({ bytes, name, size }) => {
  const { common } = await parseBuffer(new Uint8Array(bytes), { path: name, size }, { duration: false })
  const picture = selectCover(common.picture)
  const cover = picture ? new Blob([new Uint8Array(picture.data)], { type: picture.format }) : null
  return {
    kind: 'sound',
    sound: { title: common.title ?? '', artist: common.artist ?? '', album: common.album ?? '', cover },
  }
})
