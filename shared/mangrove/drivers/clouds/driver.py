"""The base of all services of opendal: an operator with time limits, and files that are listed and read.

`kinds` adds the other capabilities. An operator has threads of its own and works from any event loop.
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
from mangrove.core.paths import TreePath, is_trash_name, is_valid_name
from mangrove.core.problems import EntryNotFound, NotAFile, NotAFolder, StorageProblem
from mangrove.drivers.base import Capabilities, Driver, DriverContext, Entry
from mangrove.drivers.clouds.errors import ERRORS, get_reason, translate_errors
from mangrove.drivers.clouds.transfer import open_ranges, pass_check
from mangrove.drivers.options import Options
from mangrove.drivers.refusals import refuse_changed

OWN_OPTIONS = {"root_folder_path", "sign_url_expire", "trash_days"}  # not of opendal
LISTING_BATCH_ENTRIES = 1000
ANSWER_TIMEOUT_SECONDS = 8.0  # for the first byte of an answer, including all attempts
COPY_TIMEOUT_SECONDS = 600.0  # for copies; uploads have a limit by their size
EXIT_DELAY_SECONDS = 0.2  # for opendal's threads to finish

# The threads abort the process if they return to an interpreter that has ended.
atexit.register(time.sleep, EXIT_DELAY_SECONDS)


class Cloud(Driver):
    """A storage of a service."""

    capabilities = Capabilities(identify=True)
    scheme: ClassVar[str]
    """The name of the service in opendal."""
    settings: ClassVar[Sequence[tuple[str, str]]] = ()
    """Arguments that every operator of the service gets."""
    credentials: ClassVar[Sequence[Sequence[str]]] = ()
    """Sets of options of which one has to be complete."""
    location_options: ClassVar[Sequence[str]] = ()
    """The options that name the location of the files, without those of the user."""
    has_etags: ClassVar[bool] = False
    """True if the service has a strong validator, the same in listings and in single answers."""
    reads_if_match: ClassVar[bool] = False
    """True if a read accepts that validator as its condition."""

    def __init__(self, options: Options, context: DriverContext) -> None:
        super().__init__(options, context)
        self._quick: AsyncOperator | None = None
        self._patient: AsyncOperator | None = None

    def build_arguments(self) -> dict[str, str]:
        """Return the options as opendal accepts them. Raise StorageProblem with the name of a missing one."""
        return build_arguments(self.options, self.credentials, self.settings)

    def build_operator(self) -> AsyncOperator:
        """Return an operator without time limits, without sending a request."""
        arguments = self.build_arguments()
        try:
            return AsyncOperator(self.scheme, **arguments)
        except ERRORS as error:
            reason = get_reason(str(error))
            is_safe = not any(getattr(self.options, name) in reason for name in self.list_set_secrets())
            raise StorageProblem(f"the options are not usable{f': {reason}' if is_safe else ''}") from None

    def list_set_secrets(self) -> Sequence[str]:
        """Return the names of the secret options that are set."""
        return [name for name in self.options.list_secrets() if getattr(self.options, name)]

    async def start(self) -> None:
        operator = self.build_operator().layer(RetryLayer(max_times=2, factor=2.0, min_delay=0.1, max_delay=1.0))
        self._quick = operator.layer(TimeoutLayer(timeout=ANSWER_TIMEOUT_SECONDS, io_timeout=ANSWER_TIMEOUT_SECONDS))
        self._patient = operator.layer(TimeoutLayer(timeout=COPY_TIMEOUT_SECONDS, io_timeout=COPY_TIMEOUT_SECONDS))

    @property
    def quick(self) -> AsyncOperator:
        """The operator for requests with a short answer."""
        assert self._quick is not None
        return self._quick

    @property
    def patient(self) -> AsyncOperator:
        """The operator for requests that take longer for more bytes."""
        assert self._patient is not None
        return self._patient

    def get_key(self, path: TreePath) -> str:
        """Return the key of a file in opendal. Raise StorageProblem for a name that opendal would change or hide."""
        key = path[1:]
        if not key:
            raise NotAFile
        if key != key.strip():
            raise StorageProblem(f"{path.name}: names that begin or end with a space are not used with this service")
        if not is_valid_name(path.name):
            raise StorageProblem(f"{path.name!r}: names with control characters are not used with this service")
        return key

    def get_prefix(self, path: TreePath) -> str:
        """Return the key of a folder in opendal."""
        return "/" if path == "/" else f"{self.get_key(path)}/"

    async def identify(self, path: TreePath) -> set[str]:
        arguments = self.build_arguments()
        names = self.location_options or [name for name in arguments if name not in {"root", *dict(self.settings)}]
        location = "\n".join(f"{name} {arguments.get(name, '')}" for name in sorted(names))
        root = TreePath(arguments["root"])
        return {f"{self.scheme}:{hashlib.sha256(location.encode()).hexdigest()}:{root / path}"}

    async def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        prefix, exists = self.get_prefix(path), path == "/"
        start = 0 if path == "/" else len(prefix)
        batch: list[Entry] = []
        try:
            with translate_errors():
                async for item in await self.quick.list(prefix):
                    exists = True
                    name = item.path[start:].rstrip("/")
                    if is_valid_name(name) and not is_trash_name(name):
                        batch.append(self.make_entry(name, item.metadata))
                    if len(batch) >= LISTING_BATCH_ENTRIES:
                        yield batch
                        batch = []
        except EntryNotFound:
            if path == "/":
                raise StorageProblem("the root of the storage does not exist") from None
        yield batch
        if not exists and not (await self.stat(path)).is_dir:
            raise NotAFolder

    def make_entry(self, name: str, metadata: Metadata) -> Entry:
        """Return the entry of a file or folder."""
        changed = metadata.last_modified
        modified = changed.timestamp() if changed is not None else 0.0
        if metadata.is_dir:
            return Entry(name, 0, modified or self.context.modified, True)
        etag = (metadata.etag or "") if self.has_etags else ""
        return Entry(name, metadata.content_length, modified, False, etag="" if etag[:2] == "W/" else etag.strip('"'))

    async def stat(self, path: TreePath) -> Entry:
        if path == "/":
            return Entry("", 0, self.context.modified, True)
        key = self.get_key(path)
        with translate_errors():
            try:
                metadata = await self.quick.stat(key)
            except KeyNotFound:
                metadata = await self.quick.stat(f"{key}/")
        return self.make_entry(path.name, metadata)

    async def is_file(self, path: TreePath) -> bool:
        """True if `path` is a file."""
        try:
            with translate_errors():
                return (await self.quick.stat(self.get_key(path))).is_file
        except EntryNotFound:
            return False

    async def is_folder(self, path: TreePath) -> bool:
        """True if `path` is a folder."""
        try:
            with translate_errors():
                return (await self.quick.stat(self.get_prefix(path))).is_dir
        except EntryNotFound:
            return False

    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        key, has_condition = self.get_key(path), self.reads_if_match and if_match is not None and bool(if_match.etag)
        entry = if_match if has_condition and if_match is not None else await self.stat(path)
        if entry.is_dir:
            raise NotAFile
        refuse_changed(entry, if_match)
        size = entry.size or 0
        end = size if length is None else min(offset + length, size)
        if offset >= end:
            return stream(b"")
        condition = f'"{entry.etag}"' if self.reads_if_match and entry.etag else None

        async def fetch(start: int, size: int) -> bytes:
            with translate_errors():
                return await self.quick.read(key, offset=start, size=size, if_match=condition)

        async def check() -> None:
            refuse_changed(await self.stat(path), entry)

        return await open_ranges(fetch, pass_check if condition else check, offset, end)


def build_arguments(
    options: Options, credentials: Sequence[Sequence[str]], settings: Sequence[tuple[str, str]]
) -> dict[str, str]:
    """Return the arguments of an operator. Raise StorageProblem with the name of a missing option.

    `credentials` are sets of options; the first complete one is used.
    """
    items = options.list_form_items()
    option_values = {item.name: getattr(options, item.name) for item in items}
    values = {name: str(value).strip() for name, value in option_values.items() if value}
    for item in items:
        if item.required and item.name not in values and item.name != "root_folder_path":
            raise StorageProblem(f"{item.name} is required")
    used = next((names for names in credentials if all(name in values for name in names)), None)
    if credentials and used is None:
        raise StorageProblem(f"{', or '.join(' and '.join(names) for names in credentials)} is required")
    unused = {name for names in credentials for name in names}.difference(used or ())
    arguments = {name: value for name, value in values.items() if name not in OWN_OPTIONS | unused}
    if "endpoint" in arguments:
        endpoint = arguments["endpoint"].rstrip("/")
        arguments["endpoint"] = endpoint if "://" in endpoint else f"https://{endpoint}"
    return {**dict(settings), **arguments, "root": TreePath(values.get("root_folder_path", "/"))}
