"""Drivers whose form is known and whose code comes with a later version: they refuse to mount."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NoReturn

from mangrove.drivers.base import Driver, Entry
from mangrove.paths import TreePath
from mangrove.problems import NotSupported


class Pending(Driver):
    """Every verb, and the start, says that the driver is not available."""

    def _refuse(self) -> NoReturn:
        raise NotSupported(f"the driver {self.name} is not available in this version yet")

    async def start(self) -> None:
        self._refuse()

    def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        self._refuse()

    async def stat(self, path: TreePath) -> Entry:
        self._refuse()

    async def read(self, path: TreePath, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        self._refuse()
