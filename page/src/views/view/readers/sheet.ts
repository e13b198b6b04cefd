import { read, utils } from '@e965/xlsx'
import { MAX_TABLE_ROWS, MAX_TABLES, makeTable, serve } from './protocol'
import { checkSize } from './zip'

serve(({ bytes }) => {
  const isZip = new Uint8Array(bytes)[0] === 0x50
  if (isZip) checkSize(bytes)
  const book = read(bytes, { sheetRows: MAX_TABLE_ROWS + 1, cellDates: true, cellFormula: false, cellHTML: false })
  const tables = book.SheetNames.slice(0, MAX_TABLES).map((name) => {
    const sheet = book.Sheets[name]
    const rows = sheet ? utils.sheet_to_json<unknown[]>(sheet, { header: 1, raw: false, blankrows: false }) : []
    const whole = utils.decode_range(sheet?.['!fullref'] ?? sheet?.['!ref'] ?? 'A1').e.r
    const [columns = [], ...others] = rows.map((row) => Array.from(row))
    return makeTable(name, columns, others, whole)
  })
  return { kind: 'tables', tables }
})
