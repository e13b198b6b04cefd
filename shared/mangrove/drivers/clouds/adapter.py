"""What all services of opendal have in common: an operator with limits of time, and files that are looked at and read.

What a service can do beside that, `powers` adds. An operator has threads of its own and works from any event loop.
"""

from __future__ import annotations

import atexit
import hashlib
import time
from collections.abc import AsyncIterator, Sequence
from typing import ClassVar

from opendal import AsyncOperator
from opendal.exceptions import NotFound as KeyNotFound
from opendal.layers import RetryLayer, TimeoutLayer
from opendal.types import Metadata

from mangrove.core.chunked import stream
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, NotAFile, NotAFolder, StorageProblem
from mangrove.drivers.base import Capabilities, Driver, DriverContext, Entry
from mangrove.drivers.clouds.arguments import build_arguments
from mangrove.drivers.clouds.errors import ERRORS, get_reason, translate_errors
from mangrove.drivers.clouds.reading import open_ranges, pass_check
from mangrove.drivers.options import Options
from mangrove.drivers.refusals import refuse_changed

BATCH = 1000  # entries of a listing
SECONDS = 8.0  # within which an answer has begun, with all attempts
LONG_SECONDS = 600.0  # the same, of copies; what is sent is bounded by how long it is
EXIT_SECONDS = 0.2  # in which opendal's threads end what they do

# they abort the process when they come to an interpreter that is gone; one that ends by os._exit does not wait
atexit.register(time.sleep, EXIT_SECONDS)


class Cloud(Driver):
    """A storage of one service. Subclasses set `scheme`, what opendal calls the service."""

    capabilities = Capabilities(identify=True)
    scheme: ClassVar[str]
    settings: ClassVar[Sequence[tuple[str, str]]] = ()
    """Arguments that every operator of the service gets."""
    credentials: ClassVar[Sequence[Sequence[str]]] = ()
    """Sets of options of which one has to be complete."""
    place: ClassVar[Sequence[str]] = ()
    """The options that say where the files are, whoever asks."""
    has_etags: ClassVar[bool] = False
    """Whether the service has a strong validator, which listings and single looks tell alike."""
    reads_if_match: ClassVar[bool] = False
    """Whether a read takes that validator as its condition."""

    def __init__(self, options: Options, context: DriverContext) -> None:
        super().__init__(options, context)
        self._quick: AsyncOperator | None = None
        self._patient: AsyncOperator | None = None

    def build_arguments(self) -> dict[str, str]:
        """The options as opendal takes them; StorageProblem says what is missing."""
        return build_arguments(self.options, self.credentials, self.settings)

    def build_operator(self) -> AsyncOperator:
        """An operator without limits of time; nothing is sent."""
        arguments = self.build_arguments()
        try:
            return AsyncOperator(self.scheme, **arguments)
        except ERRORS as error:
            reason = get_reason(str(error))
            is_safe = not any(getattr(self.options, name) in reason for name in self.given_secrets())
            raise StorageProblem(f"the options are not usable{f': {reason}' if is_safe else ''}") from None

    def given_secrets(self) -> Sequence[str]:
        """Names of the secret options that are set."""
        return [name for name in self.options.list_secrets() if getattr(self.options, name)]

    async def start(self) -> None:
        operator = self.build_operator().layer(RetryLayer(max_times=2, factor=2.0, min_delay=0.1, max_delay=1.0))
        self._quick = operator.layer(TimeoutLayer(timeout=SECONDS, io_timeout=SECONDS))
        self._patient = operator.layer(TimeoutLayer(timeout=LONG_SECONDS, io_timeout=LONG_SECONDS))

    @property
    def quick(self) -> AsyncOperator:
        """For what a service answers at once."""
        assert self._quick is not None
        return self._quick

    @property
    def patient(self) -> AsyncOperator:
        """For what takes the longer, the more bytes it concerns."""
        assert self._patient is not None
        return self._patient

    def get_key(self, path: TreePath) -> str:
        """What opendal calls a file; StorageProblem for a name that it would take for another one, or not show."""
        key = path[1:]
        if not key:
            raise NotAFile
        if key != key.strip():
            raise StorageProblem(f"{path.name}: this service is not asked for names that begin or end with a space")
        if not is_usable(path.name):
            raise StorageProblem(f"{path.name!r}: this service is not asked for names with control characters")
        return key

    def get_prefix(self, path: TreePath) -> str:
        """What opendal calls a folder."""
        return "/" if path == "/" else f"{self.get_key(path)}/"

    async def identify(self, path: TreePath) -> set[str]:
        arguments = self.build_arguments()
        names = self.place or [name for name in arguments if name not in {"root", *dict(self.settings)}]
        place = "\n".join(f"{name} {arguments.get(name, '')}" for name in sorted(names))
        root = TreePath(arguments["root"])
        return {f"{self.scheme}:{hashlib.sha256(place.encode()).hexdigest()}:{root / path}"}

    def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        return self._list(path)

    async def _list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        prefix, is_there = self.get_prefix(path), path == "/"
        start = 0 if path == "/" else len(prefix)
        batch: list[Entry] = []
        try:
            with translate_errors():
                async for found in await self.quick.list(prefix):
                    is_there = True
                    name = found.path[start:].rstrip("/")
                    if is_usable(name):
                        batch.append(self.make_entry(name, found.metadata))
                    if len(batch) >= BATCH:
                        yield batch
                        batch = []
        except EntryNotFound:
            if path == "/":
                raise StorageProblem("what the storage is to show does not exist") from None
        yield batch
        if not is_there and not (await self.stat(path)).is_dir:
            raise NotAFolder

    def make_entry(self, name: str, found: Metadata) -> Entry:
        changed = found.last_modified
        modified = changed.timestamp() if changed is not None else 0.0
        if found.is_dir:
            return Entry(name, 0, modified or self.context.modified, True)
        etag = (found.etag or "") if self.has_etags else ""
        return Entry(name, found.content_length, modified, False, etag="" if etag[:2] == "W/" else etag.strip('"'))

    async def stat(self, path: TreePath) -> Entry:
        if path == "/":
            return Entry("", 0, self.context.modified, True)
        key = self.get_key(path)
        with translate_errors():
            try:
                found = await self.quick.stat(key)
            except KeyNotFound:
                found = await self.quick.stat(f"{key}/")
        return self.make_entry(path.name, found)

    async def is_file(self, path: TreePath) -> bool:
        """Whether there is a file at `path`."""
        try:
            with translate_errors():
                return (await self.quick.stat(self.get_key(path))).is_file
        except EntryNotFound:
            return False

    async def is_folder(self, path: TreePath) -> bool:
        """Whether there is a folder at `path`."""
        try:
            with translate_errors():
                return (await self.quick.stat(self.get_prefix(path))).is_dir
        except EntryNotFound:
            return False

    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        key, has_condition = self.get_key(path), self.reads_if_match and if_match is not None and bool(if_match.etag)
        found = if_match if has_condition and if_match is not None else await self.stat(path)
        if found.is_dir:
            raise NotAFile
        refuse_changed(found, if_match)
        size = found.size or 0
        end = size if length is None else min(offset + length, size)
        if offset >= end:
            return stream(b"")
        condition = f'"{found.etag}"' if self.reads_if_match and found.etag else None

        async def fetch(start: int, size: int) -> bytes:
            with translate_errors():
                return await self.quick.read(key, offset=start, size=size, if_match=condition)

        async def check() -> None:
            refuse_changed(await self.stat(path), found)

        return await open_ranges(fetch, pass_check if condition else check, offset, end)


def is_usable(name: str) -> bool:
    """Whether the tree can show an entry of this name."""
    return bool(name) and name not in (".", "..") and not any(letter in "/\\\x7f" or letter < " " for letter in name)
