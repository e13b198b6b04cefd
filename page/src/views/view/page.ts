const STYLE = `
  html { background: #eef1f4; color: #15202b; font: 16px/1.6 system-ui, sans-serif }
  body { max-width: 50rem; min-height: 90vh; margin: 1.5rem auto; padding: 3rem; background: white; box-shadow: 0 1px 4px rgb(0 0 0 / 15%) }
  @media (max-width: 40rem) { body { margin: 0; padding: 1rem } }
  h1, h2, h3, h4 { line-height: 1.25 }
  img, svg { max-width: 100%; height: auto }
  table { border-collapse: collapse }
  td, th { padding: .25rem .5rem; border: 1px solid #c8d0d8; vertical-align: top }
  pre { white-space: pre-wrap }
`

/** A document as a page of its own. */
export function makeDocumentPage(html: string): string {
  return `<!doctype html><meta charset="utf-8"><style>${STYLE}</style><body>${html}</body>`
}

const SAMPLE_SIZES = [48, 32, 24, 18, 14]
const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ abcdefghijklmnopqrstuvwxyz 0123456789 .,:;!? &@#%() €$£ ÄÖÜß éèêñç'

/** A page that shows a font, whose data address it is. */
export function makeFontPage(address: string, samples: readonly string[]): string {
  const lines = SAMPLE_SIZES.map(
    (size) => `<p style="font-size:${size}px"><small>${size}</small> ${samples.join('<br>')}</p>`,
  )
  return `<!doctype html><meta charset="utf-8"><style>${STYLE}
    @font-face { font-family: shown; src: url(${address}) }
    p { font-family: shown, serif; line-height: 1.35; overflow-wrap: anywhere }
    small { display: block; color: #556; font: 12px system-ui }
  </style><body><p style="font-size:26px">${LETTERS.replaceAll('&', '&amp;')}</p>${lines.join('')}</body>`
}
