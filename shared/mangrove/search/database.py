"""The database of the index, which reads and writes its files and has tables of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mangrove.search.calls import CallKind, CallRunner, DatabaseCall, InvalidStatement, Rows, Statement
from mangrove.search.threads import ThreadRunner

SEARCH_SECONDS = 2.0
WRITE_SECONDS = 3600.0


class Database:
    """The calls of the database, which run in threads of this process unless another `runner` is passed.

    `folder`: the folder of the index, the only one that statements can read and write.
    """

    def __init__(self, folder: Path | None = None, runner: CallRunner | None = None) -> None:
        self._runner = ThreadRunner(folder) if runner is None else runner

    @property
    def generation(self) -> int:
        """Another number if the tables were lost with their database, and are empty."""
        return self._runner.generation

    async def run(self, statement: str, parameters: Sequence[Any] = (), *, seconds: float = SEARCH_SECONDS) -> Rows:
        """Return the rows of a statement. Raise the failures of `CallRunner.run`."""
        return (await self._runner.run(DatabaseCall(CallKind.READ, [(statement, parameters)], seconds)))[-1]

    async def accepts(self, statement: str, parameters: Sequence[Any] = (), *, seconds: float = SEARCH_SECONDS) -> bool:
        """True if a statement without files can be run. A pattern that an administrator wrote may be invalid here."""
        try:
            await self.run(statement, parameters, seconds=seconds)
        except InvalidStatement:
            return False
        return True

    async def change(self, statements: Sequence[Statement], *, seconds: float = SEARCH_SECONDS) -> None:
        """Run statements on the tables in one transaction: other connections see all of it or nothing.

        Calls are serialised, so none conflicts with another. After SearchTooSlow nothing was changed.
        """
        await self._runner.run(DatabaseCall(CallKind.CHANGE, statements, seconds))

    async def write(self, statements: Sequence[Statement], *, seconds: float = WRITE_SECONDS) -> list[Rows]:
        """Return the rows of each statement, in serialised calls.

        They are long statements (COPY of an index) and have a database of their own.
        """
        return await self._runner.run(DatabaseCall(CallKind.WRITE, statements, seconds))

    def close(self) -> None:
        """Interrupt running statements and release the memory."""
        self._runner.close()
