"""The index of names: what every storage holds, found in milliseconds, filtered by right before it is counted.

    segments.py    where the index of a storage lies: immutable Parquet files, and a manifest that is swapped as a whole
    writing.py     rows into new segments; a changed part folded into what was there
    database.py    DuckDB, which writes and reads them: one per process, bounded in memory, threads and time
    words.py       what was typed, as conditions on folded names
    query.py       one search: few hits tested and sorted here; of many the folders, and the page by the database
    statements.py  its statements
    hits.py        what it finds, and who says what of it a caller may see
    columns.py     entries as columns of the index
    tables.py      the tables of the database: small indexes whole, of all others what changed since
    delta.py       changes as statements on the tables; compaction uses the same ones
    visibility.py  which of the folders with matches the caller may see, and what in them
    find.py        the verb: all of these together
    corrections.py a listing that was read anyway, compared with the index

To walk a storage is long work: `mangrove.tasks.index.worker`. Changes through this service are written to a log by
`mangrove.tree.operations.journal`, which searches read. No search reads a folder.
"""
