"""The index of names: what every storage holds, found in milliseconds, filtered by right before it is counted.

    segments.py    where the index of a storage lies: immutable Parquet files, and a manifest that is swapped as a whole
    writing.py     rows into new segments; a changed part folded into what was there
    database.py    DuckDB, which writes and reads them: one per process, bounded in memory, threads and time
    words.py       what was typed, as conditions on folded names
    query.py       one search: few hits judged and sorted here; of many the folders, and the page by the database
    statements.py  its statements
    hits.py        what it finds, and who says what of it a caller may see
    overlay.py     the folders that changed since (`records.index_marks`), read again and laid over the segments
    visibility.py  which of the folders with matches the caller may see, and what in them
    find.py        the verb: all of these together
    corrections.py a listing that was read anyway, compared with the index

Walking a storage is long work: `mangrove.tasks.index.worker`. Changes through this service are marked by
`mangrove.tree.operations.journal`.
"""
