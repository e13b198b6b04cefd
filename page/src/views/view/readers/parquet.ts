import { parquetMetadataAsync, parquetReadObjects, parquetSchema } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import { MAX_TABLE_ROWS, makeTable, serve } from './protocol'

serve(async ({ size, slice }) => {
  const file = { byteLength: size, slice: (start: number, end = size) => slice(start < 0 ? size + start : start, end) }
  const metadata = await parquetMetadataAsync(file)
  const columns = parquetSchema(metadata).children.map(({ element }) => element.name)
  const total = Number(metadata.num_rows)
  const rows = await parquetReadObjects({ file, metadata, compressors, rowEnd: Math.min(total, MAX_TABLE_ROWS) })
  return {
    kind: 'tables',
    tables: [
      makeTable(
        '',
        columns,
        rows.map((row) => columns.map((name) => row[name])),
        total,
      ),
    ],
  }
})
