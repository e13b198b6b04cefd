"""The index as this process reads it."""

from __future__ import annotations

from mangrove.core import runtime
from mangrove.search.database import Database
from mangrove.search.tables import IndexTables


class SearchIndex:
    """The database of the index in this process, and the tables in it."""

    def __init__(self, database: Database | None = None) -> None:
        self.database = Database() if database is None else database
        self.tables = IndexTables(self.database)


def search_index() -> SearchIndex:
    """Return the index of this process."""
    return runtime.get(SearchIndex)
