"""The index of names: the content of every storage, found in milliseconds and filtered by rights before it is counted.

    segments.py    the files of the index of a storage: immutable Parquet files, and a manifest that names them
    writing.py     rows as files of segments
    folding.py     a new index, made of the older one and of the result of a walk or of changes
    database.py    the database, which reads and writes them, and has tables of its own
    calls.py       its calls and their failures
    threads.py     its calls in threads, by DuckDB, with limits for memory, threads and time
    process.py     its calls in a process for all processes of a service, which runs only while people search
    words.py       the typed keywords, as conditions on folded names
    query.py       one search: few hits are tested and sorted here; for many, the database makes the page
    statements.py  its statements
    hits.py        the hits of a search, and the interface that decides which of them a caller may see
    columns.py     entries as columns of the index
    tables.py      the tables of the database: small indexes as a whole, and the changes of all others
    index.py       the database and the tables of this process
    delta.py       changes as statements on the tables; compaction uses the same statements
    visibility.py  the folders with matches that the caller may see, and the visible names in them
    find.py        the operation: all of these together
    changers.py    the user who changed a file last
    corrections.py a listing that was read for another purpose, compared with the index

Walking through a storage is the work of a task, `mangrove.tasks.index.worker`. Changes through this service are written
to a log by `mangrove.tree.operations.journal`, which searches read. A search never reads a folder.
"""
