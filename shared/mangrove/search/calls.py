"""Calls of the database of the index: their statements, their rows and their failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

from mangrove.core.problems import Problem

Statement = tuple[str, Sequence[Any]]
Rows = list[tuple[Any, ...]]
TABLES = """
create sequence numbers;
create table folders(base uinteger, number uinteger, id uinteger, path varchar);
create table names(
    base uinteger, folder uinteger, name varchar, folded varchar, is_dir boolean, size bigint, modified double,
    changed_by bigint
);
create table hidden(base uinteger, path varchar);
create table hidden_names(base uinteger, folder varchar, name varchar);
create table is_free(value boolean);
create table known(path varchar, known_name varchar, size bigint, modified double, changed_by bigint);
create table copied(old uinteger, new uinteger, id uinteger, path varchar);
"""  # see `search.delta`


class CallKind(IntEnum):
    """Kinds of calls."""

    READ = 0  # from the tables and the files
    CHANGE = 1  # the tables, in one transaction
    WRITE = 2  # files, in a database of its own


@dataclass(frozen=True, slots=True)
class DatabaseCall:
    """Statements that run one after the other on one connection, and the seconds that they may take."""

    kind: CallKind
    statements: Sequence[Statement]
    seconds: float


class DamagedSegment(Problem):
    """A file of the index is missing, truncated or damaged; `data` is its name."""

    text = "the search index is damaged"


class TablesLost(Problem):
    """The database ended during the call. The tables are empty; the caller starts again."""

    text = "the search index is being loaded again"


class InvalidStatement(Exception):
    """DuckDB refuses a statement. A pattern that an administrator wrote may be invalid there."""


class CallRunner(Protocol):
    """A place where calls run: threads of this process, or another process.

    `generation`: another number if the tables were lost with their database, and are empty.
    """

    generation: int

    async def run(self, call: DatabaseCall) -> list[Rows]:
        """Return the rows of each statement. Cancelling the caller interrupts them.

        Raise DamagedSegment, InvalidStatement, TablesLost, or SearchTooSlow if it takes more time, including the wait
        for a thread, or needs too much memory. After SearchTooSlow a change has changed nothing.
        """
        ...

    def close(self) -> None:
        """Interrupt running statements and release the memory."""
        ...
