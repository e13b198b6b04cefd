import Papa from 'papaparse'
import { decode } from '../decode'
import { MAX_TABLE_ROWS, makeTable, serve } from './protocol'

serve(({ bytes, name, size }) => {
  const isWhole = bytes.byteLength >= size
  const text = decode(new Uint8Array(bytes), isWhole)?.text
  if (text === undefined) throw new Error('This is no text.')
  const delimiter = name.toLowerCase().endsWith('.tsv') ? '\t' : ''
  const { data } = Papa.parse<string[]>(text, { delimiter, skipEmptyLines: true })
  const rows = isWhole ? data : data.slice(0, -1) // the last line may be cut
  const [columns = [], ...others] = rows
  return {
    kind: 'tables',
    tables: [makeTable('', columns, others.slice(0, MAX_TABLE_ROWS), isWhole ? others.length : null)],
  }
})
