import initSqlJs from 'sql.js'
import { MAX_TABLES, makeTable, serve } from './protocol'

const MAX_ROWS_PER_TABLE = 100

serve(async ({ bytes, module }) => {
  const { Database } = await initSqlJs({ wasmBinary: module })
  const database = new Database(new Uint8Array(bytes))
  const names = database.exec(
    `SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name LIMIT ${MAX_TABLES}`,
  )[0]?.values
  const tables = (names ?? []).map(([value]) => {
    const name = String(value)
    const quoted = `"${name.replaceAll('"', '""')}"`
    const [head] = database.exec(`SELECT * FROM ${quoted} LIMIT ${MAX_ROWS_PER_TABLE}`)
    const columns =
      head?.columns ?? (database.exec(`PRAGMA table_info(${quoted})`)[0]?.values ?? []).map((row) => row[1])
    const total = Number(database.exec(`SELECT count(*) FROM ${quoted}`)[0]?.values[0]?.[0] ?? 0)
    return makeTable(name, columns, head?.values ?? [], total)
  })
  return { kind: 'tables', tables }
})
