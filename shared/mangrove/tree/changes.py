"""The verbs that change names: make a folder, rename one, many, or by pattern, remove.

Each verb requires the right its route declared, on the final path of every item, and validates all items before it
touches the first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mangrove.drivers.base import MakesDirectories, Removes, RemovesEmpty, Renames
from mangrove.identity.rights import Right
from mangrove.paths import check_existing_name, check_name
from mangrove.patterns import InvalidPattern, compile_pattern
from mangrove.problems import BadRequest, Collision, Exists, Forbidden, NotFound, NotSupported, StorageProblem
from mangrove.tree.access import PathAccess, locate, lookup
from mangrove.tree.browse import explain_folder_failure
from mangrove.tree.listing import listings
from mangrove.tree.mounts import Located

LONGEST_PATTERN = 1000  # characters, of a pattern and of its template


async def mkdir(access: PathAccess) -> None:
    """Make the folder and its missing parents; fine when it is there, Exists when a file is in the way."""
    access.require(Right.WRITE, access.path.parent)
    if access.is_mount_or_ancestor():
        return
    located = await locate(access)
    if not isinstance(located.driver, MakesDirectories):
        raise NotSupported
    try:
        if not (await lookup(located)).is_dir:
            raise Exists
        return
    except NotFound:
        pass
    await check_missing_folders(access, located)
    await located.driver.makedirs(located.path)
    forget_upwards(located)


def forget_upwards(located: Located) -> None:
    """Drop the listings that a new entry (and new folders on the way to it) changed."""
    for folder in located.path.ancestors():
        listings().forget(located.mount.storage.id, folder)


def forget(located: Located) -> None:
    """Drop the listings of a changed entry's folder, of itself and of all below."""
    listings().forget(located.mount.storage.id, located.path.parent)
    listings().forget_below(located.mount.storage.id, located.path)


async def check_source(item: PathAccess, located: Located) -> bool:
    """Whether the item is a folder; NotFound when it is missing or hidden, Forbidden when it is or holds a mount."""
    if item.is_mount_or_ancestor():
        raise Forbidden
    try:
        if item.is_hidden():
            raise NotFound
        return (await lookup(located)).is_dir
    except NotFound as problem:
        prefix = "failed to get obj: " if located.driver.config.direct_lookup else ""
        raise NotFound(f"failed to get src object: {prefix}{problem.message}") from None


async def exists(located: Located) -> bool:
    """Whether the storage has an entry at that path."""
    try:
        await lookup(located)
    except NotFound:
        return False
    return True


async def check_missing_folders(access: PathAccess, located: Located) -> None:
    """Refuse what may not be made, among the path and the folders above it that are not there yet."""
    for step, path in zip(located.path.ancestors()[:-1], access.path.ancestors(), strict=False):
        if await exists(located.with_path(step)):
            return
        check_name(step.name)
        access.require(Right.WRITE, path.parent)


async def rename(access: PathAccess, raw: str, overwrite: bool) -> None:
    """Give one file or folder a new name in its folder; Collision when taken and not to be overwritten."""
    name = check_name(raw)
    access.require(Right.RENAME, access.path.parent)
    if access.path == access.base or access.path in access.table.by_path:
        raise StorageProblem("rename root folder is not allowed")
    await rename_all(access.parent, {access.path.name: name}, overwrite)


async def rename_all(folder: PathAccess, wanted: Mapping[str, str], overwrite: bool = False) -> None:
    """Rename entries of one folder, old name → new name. All are checked before the first is renamed."""
    folder.require(Right.RENAME)
    for old, new in wanted.items():
        check_existing_name(old)
        check_name(new)
    if not wanted:
        return
    located = await locate(folder)
    if not isinstance(located.driver, Renames):
        raise NotSupported
    pairs = {old: new for old, new in wanted.items() if old != new}
    for old in wanted:
        await check_source(folder.child(old), located.child(old))
    for old in wanted:
        folder.child(old).require_export()
    for new in pairs.values():
        folder.child(new).require_import()
    await _check_new_names(folder, located, pairs, overwrite)
    for old, new in pairs.items():
        source, target = located.child(old), located.child(new)
        try:
            await located.driver.rename(source.path, target.path)
        except StorageProblem as problem:
            raise problem.with_prefix(f"rename [{old}]") from problem
        finally:
            forget(source)
            forget(target)


async def _check_new_names(folder: PathAccess, located: Located, pairs: Mapping[str, str], overwrite: bool) -> None:
    """Refuse when two entries would get one name, or a new name is taken (also by a mount)."""
    taken: set[str] = set()
    for new in pairs.values():
        target = folder.child(new)
        if new in taken or target.is_mount_or_ancestor():
            raise Collision(f"file [{new}] exists")
        taken.add(new)
        replaceable = overwrite and not target.is_hidden()
        if not replaceable and await exists(located.child(new)):
            raise Collision(f"file [{new}] exists")


async def rename_by_pattern(folder: PathAccess, pattern: str, template: str) -> None:
    """Rename every entry whose name matches the RE2 `pattern`; `template` is Go's (`$1`, `${name}`, `$$`)."""
    folder.require(Right.RENAME)
    if len(pattern) > LONGEST_PATTERN or len(template) > LONGEST_PATTERN:
        raise BadRequest("the pattern is too long")
    try:
        compiled = compile_pattern(pattern)
    except InvalidPattern as error:
        raise StorageProblem(f"error parsing regexp: {error}") from None
    try:
        found = await folder.list_folder()
    except StorageProblem as problem:
        raise explain_folder_failure(folder, problem) from problem
    names = [entry.name for entry in folder.make_visibility_filter().select(found.entries)]
    wanted = {name: _replace_matches(compiled, template, name) for name in names if compiled.search(name)}
    if wanted:
        await rename_all(folder, wanted)


_variable = re.compile(r"\$(?:\$|\{(\w+)\}|(\w+))")


def _replace_matches(pattern: Any, template: str, name: str) -> str:
    """All matches in `name` replaced as Go's ReplaceAllString does; an unknown group is empty."""

    def expand(match: Any) -> str:
        def get_group(variable: re.Match[str]) -> str:
            key = variable.group(1) or variable.group(2)
            if key is None:
                return "$"
            if key.isdecimal():
                return (match.group(int(key)) or "") if int(key) <= pattern.groups else ""
            return (match.group(key) or "") if key in pattern.groupindex else ""

        return _variable.sub(get_group, template)

    return str(pattern.sub(expand, name))


async def remove(folder: PathAccess, names: Sequence[str]) -> None:
    """Remove entries of a folder with all they hold; what is not there counts as removed."""
    if not names:
        raise BadRequest("Empty file names")
    folder.require(Right.DELETE)
    for name in names:
        check_existing_name(name)
        item = folder.child(name)
        if item.is_mount_or_ancestor() or item.rules.is_restricted_below(item.caller.user, item.path, "", True):
            raise Forbidden(f"remove [{name}]: permission denied")
    located = await locate(folder)
    if not isinstance(located.driver, Removes):
        raise NotSupported
    for name in names:
        if folder.child(name).is_hidden():
            continue
        item_located = located.child(name)
        try:
            await located.driver.remove(item_located.path)
        except NotFound:
            pass  # already gone
        except StorageProblem as problem:
            raise problem.with_prefix(f"remove [{name}]") from problem
        finally:
            forget(item_located)


async def remove_empty(folder: PathAccess) -> None:
    """Remove every sub-folder that holds no file, however deep; the folder itself stays."""
    folder.require(Right.DELETE)
    located = await locate(folder)
    if not isinstance(located.driver, Removes):
        raise NotSupported
    try:
        found = await listings().get(located, refresh=True)
    except StorageProblem as problem:
        raise explain_folder_failure(folder, problem) from problem
    for name in [entry.name for entry in found.entries if entry.is_dir and not entry.is_link]:
        await _prune(folder.child(name), located.child(name))
    listings().forget_below(located.mount.storage.id, located.path)


async def _prune(access: PathAccess, located: Located) -> bool:
    """Whether the folder was empty, or became so, and is gone. Mounts, hidden and closed folders stay."""
    driver = located.driver
    assert isinstance(driver, Removes)
    if access.is_mount_or_ancestor() or access.is_hidden():
        return False
    if not access.rules.may_write(access.caller.user, access.path):
        return False
    empty, subfolders = True, []
    try:
        async for batch in driver.list(located.path):
            empty = empty and all(entry.is_dir and not entry.is_link for entry in batch)
            subfolders += [entry.name for entry in batch if entry.is_dir and not entry.is_link]
    except NotFound:
        return False  # gone meanwhile, or nothing in it can be shown
    for name in subfolders:
        empty = await _prune(access.child(name), located.child(name)) and empty
    if empty and isinstance(driver, RemovesEmpty):
        return await driver.remove_empty(located.path)
    if empty:
        await driver.remove(located.path)
    return empty
