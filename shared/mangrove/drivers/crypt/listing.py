"""The entries of a folder, decrypted batch by batch as the remote answers them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence, Set
from contextlib import aclosing
from typing import Any

from mangrove.core.chunked import iterate_chunked
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, NotAFolder, NotMounted, Problem, StorageProblem
from mangrove.drivers.base import Entry
from mangrove.drivers.context import limit_redirects
from mangrove.drivers.crypt.remote import Remote, decrypt_entry

Report = Callable[[str], Awaitable[None]]


class FolderListing:
    """One listing of a folder. `thumbnails`: the name of the folder with the pictures of this one's files; "" for
    none."""

    def __init__(
        self, remote: Remote, path: TreePath, modified: float, show_hidden: bool, thumbnails: str = ""
    ) -> None:
        self._remote = remote
        self._path = path
        self._modified = modified
        self._show_hidden = show_hidden
        self._thumbnails = thumbnails
        self._foreign = self._own = 0  # names that these options could not have made, and that they made

    async def read(self, report: Report | None) -> AsyncIterator[Sequence[Entry]]:
        """The batches; EntryNotFound, or NotAFolder. `report` is told at the end when no name decrypts, or else ""."""
        pictures = await self._list_pictures() if self._thumbnails else frozenset[str]()
        mounts = {name: Entry(name, 0, self._modified, True) for name in self._remote.list_mounts(self._path)}
        try:
            async with aclosing(self._read()) as batches:
                async for batch in batches:
                    for entry in batch:
                        mounts.pop(entry.name, None)
                    yield (
                        [entry._replace(thumb=f"{entry.name}.webp" in pictures) for entry in batch]
                        if pictures
                        else batch
                    )
        except EntryNotFound:
            if not mounts:
                raise
        if mounts:
            yield [*mounts.values()]
        if report is not None:
            await report(self._explain())

    def _explain(self) -> str:
        if self._own or not self._foreign:
            return ""
        return (
            f"none of the {self._foreign} names in {self._remote.root} can be decrypted: "
            "password, salt or name options are not those that they were encrypted with"
        )

    async def _list_pictures(self) -> Set[str]:
        try:
            listing = FolderListing(self._remote, self._path / self._thumbnails, 0.0, True)
            return {entry.name async for batch in listing.read(None) async for entry in iterate_chunked(batch)}
        except Problem:
            return frozenset()

    async def _read(self) -> AsyncGenerator[Sequence[Entry]]:
        try:
            place = await self._remote.locate(self._path, True)
        except NotMounted as problem:
            raise StorageProblem(f"failed get storage: {problem.message}") from None
        stored: Any = place.driver.list(place.path)
        try:
            async with aclosing(stored):
                while (batch := await self._get_next(stored)) is not None:
                    yield [entry async for entry in self._decrypt(batch)]
        except EntryNotFound:
            if self._path != "/" and await self._remote.find_kind(self._path, False) is not None:
                raise NotAFolder from None
            raise

    async def _get_next(self, stored: Any) -> Sequence[Entry] | None:
        with limit_redirects():
            batch: Sequence[Entry] | None = await anext(stored, None)
        return batch

    async def _decrypt(self, batch: Sequence[Entry]) -> AsyncIterator[Entry]:
        names = self._remote.names
        async for stored in iterate_chunked(batch):
            name = names.decrypt(stored.name, stored.is_dir)
            if names.tells_keys(stored.is_dir):
                self._own += name is not None
                self._foreign += name is None
            if name is None or (name.startswith(".") and not self._show_hidden):
                continue
            entry = decrypt_entry(stored, name)
            if entry is not None:
                yield entry
