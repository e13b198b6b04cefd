"""The verbs that change names: make a folder, rename one, many, or by pattern, remove.

Each verb spends the right its route declared, on the final path of every item, and validates all items before it
touches the first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import re2

from mangrove.drivers.base import Driver, MakesDirectories, Removes, RemovesEmpty, Renames
from mangrove.identity.rights import Right
from mangrove.paths import TreePath, check_existing_name, check_name
from mangrove.problems import BadRequest, Collision, Exists, Forbidden, NotFound, NotSupported, StorageProblem
from mangrove.tree.access import PathAccess, look
from mangrove.tree.browse import explained_folder
from mangrove.tree.listing import cache
from mangrove.tree.mounts import Mount


async def make(access: PathAccess) -> None:
    """Make the folder and its missing parents; fine when it is there, Exists when a file is in the way."""
    access.require(Right.WRITE, access.path.parent)
    if access.is_mount_or_ancestor():
        return
    driver, inner, mount = await running(access)
    if not isinstance(driver, MakesDirectories):
        raise NotSupported
    try:
        if not (await look(driver, inner, mount)).is_dir:
            raise Exists
        return
    except NotFound:
        pass
    await check_missing(access, driver, inner, mount)
    await driver.makedirs(inner)
    forget_upwards(mount, inner)


async def running(access: PathAccess, role: str = "") -> tuple[Driver, TreePath, Mount]:
    """The running driver for a change; `role` (`src`, `dst`) goes into the message when no storage is there."""
    try:
        mount, inner = access.mount()
    except StorageProblem as problem:
        raise problem.with_prefix(f"failed get {role} storage".replace("  ", " ")) from None
    return await mount.running(), inner, mount


def forget_upwards(mount: Mount, inner: TreePath) -> None:
    """Drop the listings that a new entry at `inner` (and new folders on the way to it) changed."""
    for folder in inner.ancestors():
        cache.forget(mount.storage.id, folder)


def forget(mount: Mount, inner: TreePath) -> None:
    """Drop the listings of a changed entry's folder, of itself and of all below."""
    cache.forget(mount.storage.id, inner.parent)
    cache.forget_below(mount.storage.id, inner)


async def sources(access: PathAccess, names: Sequence[str], driver: Driver, inner: TreePath, mount: Mount) -> None:
    """Refuse unless every name is an entry of the folder `spot` that the caller may see and may take away."""
    for name in names:
        await source(access.child(name), driver, inner / name, mount)


async def source(item: PathAccess, driver: Driver, inner: TreePath, mount: Mount) -> bool:
    """Whether the item is a folder; NotFound when it is missing or hidden, Forbidden when it is or holds a mount."""
    if item.is_mount_or_ancestor():
        raise Forbidden
    try:
        if item.rules.hidden(item.caller.user, item.path):
            raise NotFound
        return (await look(driver, inner, mount)).is_dir
    except NotFound as problem:
        lookup = "failed to get obj: " if driver.config.direct_lookup else ""
        raise NotFound(f"failed to get src object: {lookup}{problem.message}") from None


async def exists(driver: Driver, inner: TreePath, mount: Mount) -> bool:
    """Whether something stands at `inner`."""
    try:
        await look(driver, inner, mount)
    except NotFound:
        return False
    return True


async def check_missing(access: PathAccess, driver: Driver, inner: TreePath, mount: Mount) -> None:
    """Refuse what may not be made, among the folders on the way to `spot` (`inner`) that are not there yet."""
    for step, path in zip(inner.ancestors()[:-1], access.path.ancestors(), strict=False):
        if await exists(driver, step, mount):
            return
        check_name(step.name)
        access.require(Right.WRITE, path.parent)


async def rename(access: PathAccess, raw: str, overwrite: bool) -> None:
    """Give one file or folder a new name in its folder; Collision when taken and not to be overwritten."""
    name = check_name(raw)
    access.require(Right.RENAME, access.path.parent)
    if access.path == access.base or access.path in access.table.by_path:
        raise StorageProblem("rename root folder is not allowed")
    await rename_all(access.with_path(access.path.parent), {access.path.name: name}, overwrite)


async def rename_all(folder: PathAccess, wanted: Mapping[str, str], overwrite: bool = False) -> None:
    """Rename entries of one folder, old name → new name. All are checked before the first is renamed."""
    folder.require(Right.RENAME)
    for old, new in wanted.items():
        check_existing_name(old)
        check_name(new)
    if not wanted:
        return
    driver, inner, mount = await running(folder)
    if not isinstance(driver, Renames):
        raise NotSupported
    pairs = {old: new for old, new in wanted.items() if old != new}
    await sources(folder, list(wanted), driver, inner, mount)
    for old in wanted:
        folder.child(old).require_export()
    for new in pairs.values():
        folder.child(new).require_import()
    await _free(folder, pairs, overwrite, driver, inner, mount)
    for old, new in pairs.items():
        try:
            await driver.rename(inner / old, inner / new)
        except StorageProblem as problem:
            raise problem.with_prefix(f"rename [{old}]") from problem
        finally:
            forget(mount, inner / old)
            forget(mount, inner / new)


async def _free(
    folder: PathAccess, pairs: Mapping[str, str], overwrite: bool, driver: Driver, inner: TreePath, mount: Mount
) -> None:
    """Refuse when two entries would get one name, or a new name is taken (also by a mount)."""
    taken: set[str] = set()
    for new in pairs.values():
        if new in taken or (folder.path / new) in folder.table.by_path or (folder.path / new) in folder.table.above:
            raise Collision(f"file [{new}] exists")
        taken.add(new)
        kept = not overwrite or folder.rules.hidden(folder.caller.user, folder.path / new)
        if kept and await exists(driver, inner / new, mount):
            raise Collision(f"file [{new}] exists")


async def rename_by_pattern(folder: PathAccess, pattern: str, template: str) -> None:
    """Rename every entry whose name matches the RE2 `pattern`; `template` is Go's (`$1`, `${name}`, `$$`)."""
    folder.require(Right.RENAME)
    if len(pattern) > 1000 or len(template) > 1000:
        raise BadRequest("the pattern is too long")
    try:
        compiled = re2.compile(pattern)
    except re2.error as error:
        raise StorageProblem(f"error parsing regexp: {_text(error)}") from None
    try:
        listed, _, _ = await folder.folder(refresh=False)
    except StorageProblem as problem:
        raise explained_folder(folder, problem) from problem
    _, visible = folder.visible()
    names = [entry.name for entry in listed.entries if visible is None or visible(entry)]
    wanted = {name: _replaced(compiled, template, name) for name in names if compiled.search(name)}
    if wanted:
        await rename_all(folder, wanted)


def _text(error: Exception) -> str:
    first = error.args[0] if error.args else error
    return first.decode(errors="replace") if isinstance(first, bytes) else str(first)


_variable = re.compile(r"\$(?:\$|\{(\w+)\}|(\w+))")


def _replaced(pattern: Any, template: str, name: str) -> str:
    """All matches in `name` replaced as Go's ReplaceAllString does; an unknown group is empty."""

    def expand(match: Any) -> str:
        def group(variable: re.Match[str]) -> str:
            key = variable.group(1) or variable.group(2)
            if key is None:
                return "$"
            if key.isdecimal():
                return (match.group(int(key)) or "") if int(key) <= pattern.groups else ""
            return (match.group(key) or "") if key in pattern.groupindex else ""

        return _variable.sub(group, template)

    return str(pattern.sub(expand, name))


async def remove(folder: PathAccess, names: Sequence[str]) -> None:
    """Remove entries of a folder with all they hold; what is not there counts as removed."""
    if not names:
        raise BadRequest("Empty file names")
    folder.require(Right.DELETE)
    for name in names:
        check_existing_name(name)
        item = folder.child(name)
        if item.is_mount_or_ancestor() or item.rules.keeps(item.caller.user, item.path, "", True):
            raise Forbidden(f"remove [{name}]: permission denied")
    driver, inner, mount = await running(folder)
    if not isinstance(driver, Removes):
        raise NotSupported
    for name in names:
        if folder.rules.hidden(folder.caller.user, folder.path / name):
            continue
        try:
            await driver.remove(inner / name)
        except NotFound:
            pass  # already gone
        except StorageProblem as problem:
            raise problem.with_prefix(f"remove [{name}]") from problem
        finally:
            forget(mount, inner / name)


async def remove_empty(folder: PathAccess) -> None:
    """Remove every sub-folder that holds no file, however deep; the folder itself stays."""
    folder.require(Right.DELETE)
    driver, inner, mount = await running(folder)
    if not isinstance(driver, Removes):
        raise NotSupported
    try:
        listed = await cache.get(mount, driver, inner, refresh=True)
    except StorageProblem as problem:
        raise explained_folder(folder, problem) from problem
    for name in [entry.name for entry in listed.entries if entry.is_dir and not entry.is_link]:
        await _prune(folder.child(name), driver, inner / name)
    cache.forget_below(mount.storage.id, inner)


async def _prune(access: PathAccess, driver: Driver, inner: TreePath) -> bool:
    """Whether the folder was empty, or became so, and is gone. Mounts, hidden and closed folders stay."""
    assert isinstance(driver, Removes)
    if access.is_mount_or_ancestor() or access.rules.hidden(access.caller.user, access.path):
        return False
    if not access.rules.may_write(access.caller.user, access.path):
        return False
    empty, subfolders = True, []
    try:
        async for batch in driver.list(inner):
            empty = empty and all(entry.is_dir and not entry.is_link for entry in batch)
            subfolders += [entry.name for entry in batch if entry.is_dir and not entry.is_link]
    except NotFound:
        return False  # gone meanwhile, or nothing in it can be shown
    for name in subfolders:
        empty = await _prune(access.child(name), driver, inner / name) and empty
    if empty and isinstance(driver, RemovesEmpty):
        return await driver.remove_empty(inner)
    if empty:
        await driver.remove(inner)
    return empty
