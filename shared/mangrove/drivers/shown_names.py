"""Names of a storage that are shown differently, by the setting `filename_char_mapping`.

A name is shown as the mapping makes it, unless another entry of the folder would have the same name then: such names
are shown unchanged. An entry is found by its displayed name only, because rules of the tree use the names that people
see. A new name that the mapping would change is refused.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mangrove.core.chunked import in_batches
from mangrove.core.paths import MAX_NAME_BYTES, TreePath, map_characters
from mangrove.core.problems import BadRequest, EntryNotFound, NotAFolder
from mangrove.core.runtime import BoundedCache
from mangrove.drivers.base import ROOT, Driver, Entry
from mangrove.drivers.part_names import TRASH_FOLDER

CHANGED_NAMES_SECONDS = 5.0  # for which the changed names of a folder are cached
MAX_KNOWN_FOLDERS = 256  # whose changed names are cached
# methods of a driver: the first argument is a path of an existing entry
_EXISTING = [
    "discard", "get_change_token", "get_checksums", "identify", "link", "list_parts", "make_thumbnail", "open_file",
    "read", "remove", "remove_empty", "remove_unchanged", "set_modified", "stat", "sync",
]  # fmt: skip
# … of an entry that may exist
_NEW = [
    "abort", "abort_by_key", "begin", "finish", "makedirs", "open_staged", "put_url", "sign_part", "sign_upload",
    "stream_part", "write", "write_part",
]  # fmt: skip
_PAIRS = ["copy", "move", "rename", "set_aside"]  # the first two arguments, one of either kind
_WITHOUT_PATH = [
    "can_refuse_existing", "get_space", "offers_direct_uploads", "predict_etag", "proves_reads", "proves_writes",
]  # fmt: skip
# Other operations of the driver are not offered under displayed names: whole listings and single files remain.


class NameMapping:
    """The mapping, limited to names that a path can contain."""

    def __init__(self, mapping: Mapping[str, str]) -> None:
        self._mapping = {old: new for old, new in mapping.items() if "/" not in old and "\\" not in old and old != new}

    def __bool__(self) -> bool:
        return bool(self._mapping)

    def apply(self, name: str) -> str:
        """Return a name as the mapping makes it."""
        return map_characters(name, self._mapping)

    def may_show(self, shown: str) -> bool:
        """True if the mapping may make `shown` from another name."""
        return any(new in shown for new in self._mapping.values())

    def show(self, names: Iterable[str], plain: Collection[str]) -> dict[str, str]:
        """Return the names that the mapping changes by displayed name; `plain`: those that it does not change."""
        shown = {name: _choose(name, self.apply(name)) for name in names}
        while True:
            counts = Counter(shown.values())
            clashes = [name for name, text in shown.items() if text != name and (text in plain or counts[text] > 1)]
            if not clashes:
                return {text: name for name, text in shown.items()}
            shown |= {name: name for name in clashes}


def _choose(name: str, shown: str) -> str:
    """Return the displayed name if a path can contain it, otherwise the name itself."""
    is_name = shown not in ("", ".", "..") and not set("/\\\0") & set(shown) and len(shown.encode()) <= MAX_NAME_BYTES
    return shown if is_name else name


class ShownNames(Driver):
    """A driver under displayed names. `_make_class` gives a class the operations of the driver behind."""

    def __init__(self, driver: Driver, mapping: NameMapping) -> None:
        super().__init__(driver.options, driver.context)
        self.driver = driver
        self.mapping = mapping
        self._known: BoundedCache[TreePath, tuple[float, dict[str, str]]] = BoundedCache(MAX_KNOWN_FOLDERS)

    def get_unmapped(self) -> Driver:
        """Return the driver behind, with the names of the storage."""
        return self.driver

    async def start(self) -> None:
        await self.driver.start()

    async def stop(self) -> None:
        await self.driver.stop()

    async def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        folder = await self.find(path)
        changed, plain = dict[str, Entry](), set[str]()
        async for batch in self.driver.list(folder):
            changed |= {entry.name: entry for entry in batch if self.mapping.apply(entry.name) != entry.name}
            unchanged = [entry for entry in batch if entry.name not in changed] if changed else batch
            plain |= {entry.name for entry in unchanged if self.mapping.may_show(entry.name)}
            yield unchanged
        names = self._remember(folder, changed, plain)
        async for shown_batch in in_batches([*names.items()]):
            yield [changed[name]._replace(name=shown) for shown, name in shown_batch]

    def _remember(self, folder: TreePath, changed: Collection[str], plain: Collection[str]) -> dict[str, str]:
        names = self.mapping.show(changed, plain)
        self._known.put(folder, (time.monotonic(), names))
        return names

    async def find(self, path: TreePath) -> TreePath:
        """Return the storage's path of an existing entry by its displayed path. Raise EntryNotFound if there is none.

        A name that the mapping does not change may not exist: the storage reports that.
        """
        if path.within(TRASH_FOLDER):
            return path
        folder = ROOT
        for shown in path.split("/")[1:] if path != ROOT else ():
            folder = folder / await self._find_name(folder, shown)
        return folder

    async def find_new(self, path: TreePath) -> TreePath:
        """Return the storage's path of an entry, existing or new, by its displayed path.

        Raise BadRequest for a name that would be displayed differently.
        """
        try:
            return await self.find(path)
        except EntryNotFound:
            for name in path.split("/"):
                if self.mapping.apply(name) != name:
                    raise BadRequest(
                        f"the name {name} would be shown as {self.mapping.apply(name)}: "
                        "the setting filename_char_mapping says so"
                    ) from None
            raise

    async def _find_name(self, folder: TreePath, shown: str) -> str:
        is_unchanged = self.mapping.apply(shown) == shown
        if is_unchanged and (not self.mapping.may_show(shown) or await self._has(folder / shown)):
            return shown
        name = (await self._read_changed_names(folder)).get(shown)
        if name is None and not is_unchanged:
            raise EntryNotFound
        return name or shown

    async def _has(self, path: TreePath) -> bool:
        try:
            await self.driver.stat(path)
        except EntryNotFound:
            return False
        return True

    async def _read_changed_names(self, folder: TreePath) -> dict[str, str]:
        """Return all names that the mapping changes in a folder by displayed name; none for a missing folder."""
        read_at, names = self._known.get(folder) or (0.0, {})
        if read_at and time.monotonic() - read_at < CHANGED_NAMES_SECONDS:
            return names
        changed, plain = set[str](), set[str]()
        try:
            async for batch in self.driver.list(folder):
                changed |= {entry.name for entry in batch if self.mapping.apply(entry.name) != entry.name}
                plain |= {entry.name for entry in batch if self.mapping.may_show(entry.name)}
        except (EntryNotFound, NotAFolder):
            return {}
        return self._remember(folder, changed, plain - changed)

    def find_known(self, path: TreePath) -> TreePath:
        """Return the storage's path of a displayed path, as far as it is known without calling the storage."""
        folder = ROOT
        for shown in path.split("/")[1:] if path != ROOT else ():
            folder = folder / (self._known.get(folder) or (0.0, {}))[1].get(shown, shown)
        return folder

    def show_path(self, path: TreePath) -> TreePath:
        """Return a path of the storage as it is displayed, unless names clash."""
        return TreePath("/".join(_choose(name, self.mapping.apply(name)) for name in path.split("/")))

    def forget(self, folder: TreePath) -> None:
        """Drop the cached names of a folder and those below."""
        self._known.remove_all(lambda known, _: known.within(folder))

    async def stat(self, path: TreePath) -> Entry:
        return (await self.driver.stat(await self.find(path)))._replace(name=path.name)

    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        return await self.driver.read(await self.find(path), offset, length, if_match)


def show_names(driver: Driver, mapping: Mapping[str, str]) -> Driver:
    """Return the driver under displayed names: itself if the mapping changes no name that it can have."""
    effective = NameMapping(mapping)
    if driver.maps_names or not effective:
        return driver
    shown: Driver = _make_class(type(driver))(driver, effective)
    return shown


def _make_class(kind: type[Driver]) -> type[ShownNames]:
    """Return the class of drivers under displayed names with the operations of `kind`, as far as they are known."""
    body = {
        "__module__": __name__, "name": kind.name, "Options": kind.Options, "config": kind.config,
        "capabilities": replace(
            kind.capabilities, list_page=False, list_range=False, list_folders=False, list_names=False,
            read_whole=False, copy_from=False, versions=False, write_whole=False,
            set_many_aside=False,
        ),
    }  # fmt: skip
    return type(f"Shown{kind.__name__}", (ShownNames,), body)


Method = Callable[..., Any]


def _show(result: Any, path: TreePath) -> Any:
    """Return the result of an operation; an entry with its displayed name."""
    return result._replace(name=path.name) if isinstance(result, Entry) else result


def _make_existing(name: str) -> Method:
    async def call(self: ShownNames, path: TreePath, *args: Any, **options: Any) -> Any:
        try:
            inner = await self.find(path)
        except EntryNotFound:
            if name in ("discard", "remove", "remove_unchanged"):
                return None  # as a driver does for a missing entry
            raise
        try:
            return _show(await getattr(self.driver, name)(inner, *args, **options), path)
        finally:
            if name.startswith(("discard", "remove")):
                self.forget(inner.parent)

    return call


def _make_new(name: str) -> Method:
    async def call(self: ShownNames, path: TreePath, *args: Any, **options: Any) -> Any:
        return _show(await getattr(self.driver, name)(await self.find_new(path), *args, **options), path)

    return call


def _make_pair(name: str) -> Method:
    async def call(self: ShownNames, path: TreePath, target: TreePath, **options: Any) -> Any:
        inner = await self.find(path)
        try:
            return _show(await getattr(self.driver, name)(inner, await self.find_new(target), **options), target)
        finally:
            self.forget(inner.parent)

    return call


def _make_known(name: str) -> Method:
    def call(self: ShownNames, path: TreePath) -> Any:
        return getattr(self.driver, name)(self.find_known(path))

    return call


def _make_sources(name: str) -> Method:
    def call(self: ShownNames, target: TreePath, *, below: bool = False) -> Sequence[TreePath]:
        return [self.show_path(path) for path in getattr(self.driver, name)(target, below=below)]

    return call


def _make_plain(name: str) -> Any:
    return property(lambda self: getattr(self.driver, name))


def _forward_operations() -> None:
    """Give ShownNames the operations that it does not define itself."""
    for names, make in (
        (_EXISTING, _make_existing),
        (_NEW, _make_new),
        (_PAIRS, _make_pair),
        (_WITHOUT_PATH, _make_plain),
        (["find_others"], _make_known),
        (["find_sources"], _make_sources),
    ):
        for name in names:
            if name not in vars(ShownNames):
                setattr(ShownNames, name, make(name))


_forward_operations()
