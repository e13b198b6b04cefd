"""The verbs that change names: make a folder, rename one, many, or by pattern, remove.

Each verb requires the right its route declared, on the final path of every item, and validates all items before it
touches the first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence, Sized

from mangrove.core import deadlines, runtime
from mangrove.core.concurrency import ComputePools
from mangrove.core.deadlines import Budget, unlimited
from mangrove.core.paths import check_existing_name, check_name
from mangrove.core.patterns import InvalidPattern, Replacement
from mangrove.core.problems import (
    BadRequest,
    Collision,
    Exists,
    Forbidden,
    NotFound,
    NotSupported,
    OutOfTime,
    StorageProblem,
)
from mangrove.core.slices import in_slices, run_in_thread
from mangrove.drivers.base import Driver, Entry, MakesDirectories, Removes, RemovesEmpty, Renames, Writes
from mangrove.identity.rights import Right
from mangrove.tree.access import PathAccess, locate, lookup
from mangrove.tree.listing.browse import explain_folder_failure
from mangrove.tree.listing.items import Item
from mangrove.tree.listing.listing import listings
from mangrove.tree.listing.lookups import Lookups, look_up
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import journal
from mangrove.tree.operations.drops import choose_path
from mangrove.tree.operations.names import hold_name, makedirs

LONGEST_PATTERN = 1000  # characters, of a pattern and of its template
PATTERN_SECONDS = 10.0  # for all names of a folder
MOST_NAMES = 10_000  # of one request


def check_count(names: Sized) -> None:
    """BadRequest for more names than one request may have."""
    if len(names) > MOST_NAMES:
        raise BadRequest(f"{len(names)} names in one request, at most {MOST_NAMES} are taken")


async def mkdir(access: PathAccess) -> None:
    """Make the folder and its missing parents; fine when it is there, Exists when a file is in the way."""
    access.parent.require(Right.WRITE)
    if access.is_mount_or_ancestor():
        return
    storage_path = await locate(access)
    if not isinstance(storage_path.driver, MakesDirectories):
        raise NotSupported
    access, storage_path = await choose_path(access, storage_path, is_folder=True)
    try:
        if not (await lookup(storage_path)).is_dir:
            raise Exists
        return
    except NotFound:
        pass
    await check_missing_folders(access, storage_path)
    await makedirs(storage_path)


async def check_source(item: PathAccess, storage_path: StoragePath, known: Lookups | None = None) -> Entry:
    """What an item is; NotFound when it is missing or hidden, Forbidden when it is or holds a mount. `known`: what was
    looked up of its folder."""
    if item.is_mount_or_ancestor():
        raise Forbidden
    try:
        if item.is_hidden():
            raise NotFound
        return await (lookup(storage_path) if known is None else known.find(storage_path.path.name))
    except NotFound as problem:
        raise explain_missing_source(storage_path, problem) from None


def explain_missing_source(storage_path: StoragePath, problem: NotFound) -> NotFound:
    """Of an entry that is to be changed, in the words that clients know."""
    prefix = "failed to get obj: " if storage_path.driver.config.direct_lookup else ""
    return NotFound(f"failed to get src object: {prefix}{problem.message}")


async def exists(storage_path: StoragePath) -> bool:
    """Whether the storage has an entry at that path."""
    try:
        await lookup(storage_path)
    except NotFound:
        return False
    return True


async def check_missing_folders(access: PathAccess, storage_path: StoragePath) -> None:
    """Refuse what may not be made, among the path and the folders above it that are not there yet."""
    for step, path in zip(storage_path.path.ancestors()[:-1], access.path.ancestors(), strict=False):
        if await exists(storage_path.with_path(step)):
            return
        check_name(step.name)
        access.with_path(path.parent).require(Right.WRITE)


async def rename(access: PathAccess, raw: str, overwrite: bool, budget: Budget | None = None) -> Sequence[Item]:
    """Give one file or folder a new name in its folder; Collision when taken and not to be overwritten. As `rename_all`
    it answers what a task has to do."""
    name = check_name(raw)
    access.parent.require(Right.RENAME)
    if access.path == access.base or access.path in access.table.by_path:
        raise StorageProblem("rename root folder is not allowed")
    return await rename_all(access.parent, {access.path.name: name}, overwrite, budget)


async def rename_all(
    folder: PathAccess, wanted: Mapping[str, str], overwrite: bool = False, budget: Budget | None = None
) -> Sequence[Item]:
    """Rename entries of one folder, old name → new name. All are checked before the first is renamed.

    With a `budget` it answers those that need a task: the storage cannot rename them at once, or time is up. Without
    one, NotSupported for what cannot be renamed at once.
    """
    check_count(wanted)
    folder.require(Right.RENAME)
    async for old, new in in_slices(wanted.items()):
        check_existing_name(old)
        check_name(new)
    if not wanted:
        return ()
    storage_path = await locate(folder)
    driver = storage_path.driver
    if not isinstance(driver, Renames) and (budget is None or not _can_carry(driver)):
        raise NotSupported
    pairs = {old: new async for old, new in in_slices(wanted.items()) if old != new}
    async for old in in_slices(wanted):
        item = folder.child(old)
        if not item.is_hidden():  # else it is not found, whatever is there
            item.require_export()
    known = await look_up(storage_path, {*wanted, *pairs.values()})
    entries = {
        old: await check_source(folder.child(old), storage_path.child(old), known) async for old in in_slices(wanted)
    }
    async for new in in_slices(pairs.values()):
        folder.child(new).require_import()
    await _check_new_names(folder, known, pairs, overwrite)
    items = [
        Item(
            old,
            storage_path.path / old,
            storage_path.path / new,
            entries[old],
            overwrite and folder.may_replace(target),
        )
        async for old, new in in_slices(pairs.items())
        if (target := folder.child(new))
    ]
    return await _rename_items(storage_path, items, budget)


def _can_carry(driver: Driver) -> bool:
    """Whether a task can copy what is there and then remove it."""
    return isinstance(driver, Writes) and isinstance(driver, Removes) and not driver.config.no_upload


async def _rename_items(storage_path: StoragePath, items: Sequence[Item], budget: Budget | None) -> Sequence[Item]:
    left: list[Item] = []
    driver, time_left = storage_path.driver, budget or unlimited()
    if not isinstance(driver, Renames):
        return items
    async for position, item in in_slices(enumerate(items)):
        if not time_left.covers(position, len(items)):
            return [*left, *items[position:]]
        source, target = storage_path.with_path(item.path), storage_path.with_path(item.target)
        try:
            async with (
                journal.move(source, target, is_folder=item.is_dir, replaces=item.overwrite),
                hold_name(target, source, overwrite=item.overwrite),
            ):
                await driver.rename(source.path, target.path, overwrite=item.overwrite)
        except StorageProblem as problem:
            if isinstance(problem, NotSupported) and budget is not None:
                left.append(item)
                continue
            if isinstance(problem, Exists) and not item.overwrite:
                raise Collision(f"file [{target.path.name}] exists") from None
            raise problem.with_prefix(f"rename [{item.name}]") from problem
    return left


async def _check_new_names(folder: PathAccess, known: Lookups, pairs: Mapping[str, str], overwrite: bool) -> None:
    """Refuse when two entries would get one name, or a new name is taken (also by a mount), or may not be known not to
    be."""
    taken: set[str] = set()
    async for new in in_slices(pairs.values()):
        target = folder.child(new)
        if new in taken or target.is_mount_or_ancestor() or not target.may_read():
            raise Collision(f"file [{new}] exists")
        taken.add(new)
        if not (overwrite and folder.may_replace(target)) and await known.has(new):
            raise Collision(f"file [{new}] exists")


async def rename_by_pattern(
    folder: PathAccess, pattern: str, template: str, budget: Budget | None = None
) -> Sequence[Item]:
    """Rename every entry whose name matches the RE2 `pattern`; `template` is Go's (`$1`, `${name}`, `$$`). As
    `rename_all` it answers what a task has to do."""
    folder.require(Right.RENAME)
    folder.require_read()
    if len(pattern) > LONGEST_PATTERN or len(template) > LONGEST_PATTERN:
        raise BadRequest("the pattern is too long")
    try:
        replacement = await runtime.get(ComputePools).patterns.run(Replacement, pattern, template)
    except InvalidPattern as error:
        raise StorageProblem(f"error parsing regexp: {error}") from None
    try:
        found = await folder.list_folder()
    except StorageProblem as problem:
        raise explain_folder_failure(folder, problem) from problem
    passes = folder.make_visibility_filter().passes
    steps = _find_new_names(found.entries, passes, replacement)
    wanted = await run_in_thread(steps, runtime.get(ComputePools).patterns)
    return await rename_all(folder, wanted, budget=budget) if wanted else ()


def _find_new_names(
    entries: Iterable[Entry], passes: Callable[[Entry], bool], replacement: Replacement
) -> Generator[None, None, dict[str, str]]:
    """Old name → new name, of the entries whose names match; BadRequest for too many, or when it takes too long."""
    wanted: dict[str, str] = {}
    end = time.monotonic() + PATTERN_SECONDS
    for entry in entries:
        new = replacement.apply(entry.name) if passes(entry) else None
        if new is not None:
            wanted[entry.name] = new
            check_count(wanted)
        yield
        if time.monotonic() > end:
            raise BadRequest(f"the pattern takes more than {PATTERN_SECONDS:.0f} seconds for the names of this folder")
    return wanted


async def remove(folder: PathAccess, names: Sequence[str], budget: Budget | None = None) -> Sequence[str]:
    """Remove entries of a folder with all they hold; what is not there counts as removed.

    With a `budget` it answers the names that are left for a task when time is up. Without one, OutOfTime where a
    request has a limit: what is removed by then is, and the next request goes on.
    """
    if not names:
        raise BadRequest("Empty file names")
    check_count(names)
    folder.require(Right.DELETE)
    names = [*dict.fromkeys(names)]
    async for name in in_slices(names):
        check_existing_name(name)
        check_removal(folder, name)
    storage_path = await locate(folder)
    if not isinstance(storage_path.driver, Removes):
        raise NotSupported
    time_left = budget or unlimited()
    async for position, name in in_slices(enumerate(names)):
        deadlines.check()
        if not time_left.covers(position, len(names)):
            return names[position:]
        try:
            with deadlines.limit(time_left.get_seconds()):
                await remove_entry(folder, storage_path, name)
        except OutOfTime:
            if budget is None:
                raise
            return names[position:]
        except StorageProblem as problem:
            raise problem.with_prefix(f"remove [{name}]") from problem
    return ()


def check_removal(folder: PathAccess, name: str) -> None:
    """Forbidden where the caller may not remove an entry; of a hidden one nothing is told."""
    item = folder.child(name)
    if not folder.may_read() or item.is_mount_or_ancestor() or not (item.is_hidden() or _may_remove(item)):
        raise Forbidden(f"remove [{name}]: permission denied")


async def remove_entry(folder: PathAccess, parent: StoragePath, name: str) -> None:
    """Remove an entry of the folder `parent` with all it holds, if it is there and not hidden; OutOfTime in the middle
    where time is limited, by storages that remove one after the other."""
    driver, storage_path = parent.driver, parent.child(name)
    assert isinstance(driver, Removes)
    if folder.child(name).is_hidden():
        return
    try:
        is_folder = journal.is_logged() and await _is_folder(storage_path)
        async with journal.remove(storage_path, is_folder=is_folder):
            await driver.remove(storage_path.path)
    except NotFound:
        pass  # already gone


async def _is_folder(storage_path: StoragePath) -> bool:
    """Whether a removal that breaks off would leave something below."""
    try:
        found = await lookup(storage_path)
    except NotFound:
        return False
    return found.is_dir and not found.is_link


def _may_remove(item: PathAccess) -> bool:
    return item.may_read() and not item.is_restricted_below(True)


async def remove_empty(folder: PathAccess) -> None:
    """Remove every sub-folder that holds no file, however deep; the folder itself stays. OutOfTime where time is
    limited: what is removed by then is."""
    folder.require(Right.DELETE)
    folder.require_read()
    storage_path = await locate(folder)
    if not isinstance(storage_path.driver, Removes):
        raise NotSupported
    try:
        found = await listings().get(storage_path, refresh=True)
    except StorageProblem as problem:
        raise explain_folder_failure(folder, problem) from problem
    async for entry in in_slices(found.entries):
        if entry.is_dir and not entry.is_link:
            await _prune(folder.child(entry.name), storage_path.child(entry.name))


def may_prune(access: PathAccess) -> bool:
    """Whether a folder goes when it is empty: mounts, and folders that the caller may not read or change, stay."""
    return not access.is_mount_or_ancestor() and access.may_read() and access.may_write()


async def _prune(access: PathAccess, storage_path: StoragePath) -> bool:
    """Whether the folder was empty, or became so, and is gone."""
    driver = storage_path.driver
    assert isinstance(driver, Removes)
    deadlines.check()
    if not may_prune(access):
        return False
    empty, subfolders = True, []
    try:
        async for batch in driver.list(storage_path.path):
            async for entry in in_slices(batch):
                is_folder = entry.is_dir and not entry.is_link
                empty = empty and is_folder
                subfolders += [entry.name] if is_folder else []
    except NotFound:
        return False  # gone meanwhile, or nothing in it can be shown
    async for name in in_slices(subfolders):
        empty = await _prune(access.child(name), storage_path.child(name)) and empty
    if not empty:
        return False
    async with journal.add(storage_path):
        if isinstance(driver, RemovesEmpty):
            return await driver.remove_empty(storage_path.path)
        await driver.remove(storage_path.path)
    return True
