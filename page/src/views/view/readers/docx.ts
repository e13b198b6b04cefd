import mammoth from 'mammoth'
import { serve } from './protocol'
import { checkSize } from './zip'

serve(async ({ bytes }) => {
  checkSize(bytes)
  const { value } = await mammoth.convertToHtml(
    { arrayBuffer: bytes },
    { styleMap: ["p[style-name='Title'] => h1:fresh"] },
  )
  return { kind: 'page', html: value }
})
