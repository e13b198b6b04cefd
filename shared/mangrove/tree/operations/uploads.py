"""The operation that stores a body: checked before the first byte is read, and stored completely or not at all."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace

from mangrove.core.paths import check_name
from mangrove.core.problems import (
    AccessDenied,
    BadRequest,
    EntryExists,
    NameConflict,
    NotAFile,
    Problem,
    StorageProblem,
    UploadRefused,
)
from mangrove.drivers.base import Entry, Upload
from mangrove.identity.rights import Right
from mangrove.tree import callers
from mangrove.tree.access import PathAccess, TreeState
from mangrove.tree.listing.lookups import find_entry, find_recent
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import name_locks
from mangrove.tree.operations.changes import check_missing_folders
from mangrove.tree.operations.free_names import choose_path
from mangrove.tree.operations.upload_problems import FileInPath, FormNotMounted

RIGHTS_FRESH_SECONDS = 1.0  # for which rights that were evaluated are recent enough to store a file
SYSTEM_FILES = frozenset({".DS_Store", "desktop.ini", "Thumbs.db", "@eaDir"})


async def write(
    access: PathAccess, body: AsyncIterator[bytes], upload: Upload, *, overwrite: bool = True,
    hashes: Mapping[str, str], is_new: bool = False,
) -> Entry:  # fmt: skip
    """Store `body` at the path, making missing folders; `hashes` (md5, sha1, sha256 in hex) must match the bytes.
    Return the stored file as its driver describes it.

    Everything that can be refused is refused before `body` is read. A body that is truncated, too long, or does not
    match its hashes leaves no file, and an old file unchanged; so does a slow one at whose end the caller has lost the
    right to store it. Without `overwrite` nothing is replaced, even if a file appears meanwhile. The file survives a
    power cut if the setting `durability` requires it.

    `is_new`: nothing is looked up at the path, since the driver refuses an existing name (`refuses_existing`).
    """
    access, storage_path = await allow(access)
    await _make_way(access, storage_path, overwrite, None if is_new else await find_recent(storage_path))
    may_replace = overwrite and access.parent.may_replace(access)
    upload = replace(upload, overwrite=may_replace, durable=access.tree.settings.is_durable)
    checked = check_at_end(verify_hashes(body, hashes), lambda: _require_present_rights(access, may_replace))
    try:
        return await name_locks.write(storage_path, checked, upload)
    except StorageProblem as problem:
        raise explain_failure(problem, access, may_replace) from problem


async def check_at_end(body: AsyncIterator[bytes], check: Callable[[], Awaitable[object]]) -> AsyncIterator[bytes]:
    """Yield the body. If it took longer than RIGHTS_FRESH_SECONDS, call `check` at its end: nothing is stored if that
    raises a Problem.
    """
    began = time.monotonic()
    async for block in body:
        yield block
    if time.monotonic() - began > RIGHTS_FRESH_SECONDS:
        await check()


async def _require_present_rights(access: PathAccess, may_replace: bool) -> None:
    """Raise AccessDenied unless the account, its token and the rules of this moment allow to store a file, and to
    replace one if that was allowed at the beginning.
    """
    caller = access.caller
    token_id = 0 if caller.scope is None else caller.scope.token_id
    caller = await callers.find_present(caller.user.id, token_id, caller.declared_right, caller.source)
    if not access.path.within(caller.base):
        raise AccessDenied
    present = PathAccess.make(caller, access.path, access.password, await TreeState.read())
    present.parent.require(Right.WRITE)
    if may_replace and not present.parent.may_replace(present):
        raise AccessDenied


async def refuses_existing(access: PathAccess) -> bool:
    """True if the storage of a path itself refuses a name that is taken."""
    driver = (await access.locate("")).driver
    return driver.capabilities.write and await driver.can_refuse_existing()


def explain_failure(problem: StorageProblem, access: PathAccess, may_replace: bool) -> Problem:
    """Return the failure of a driver to store a file in the words of an upload."""
    if isinstance(problem, EntryExists):
        return problem if may_replace else NameConflict()
    return problem.with_prefix(f"failed to store [{access.path.name}]")


async def prepare(access: PathAccess, overwrite: bool) -> tuple[PathAccess, StoragePath]:
    """Return the path of an allowed upload. Its folder exists afterwards."""
    access, storage_path = await allow(access)
    await _make_way(access, storage_path, overwrite, await find_entry(storage_path))
    return access, storage_path


async def prepare_known(access: PathAccess, overwrite: bool, entry: Entry | None) -> tuple[PathAccess, StoragePath]:
    """Return as `prepare` does. `entry`: at the path, as the caller has just found it if `access` may be read."""
    allowed, storage_path = await allow(access)
    is_known = access.may_read() and allowed.path == access.path
    await _make_way(allowed, storage_path, overwrite, entry if is_known else await find_entry(storage_path))
    return allowed, storage_path


async def _make_way(access: PathAccess, storage_path: StoragePath, overwrite: bool, entry: Entry | None) -> None:
    """Make the folder of a file if there is no entry at its path. Raise a Problem if the entry may not be replaced."""
    if entry is None:
        await make_folder(access.parent, storage_path.parent)
    elif not (overwrite and access.parent.may_replace(access)):
        raise NameConflict
    elif entry.is_dir:
        raise EntryExists


async def allow(access: PathAccess) -> tuple[PathAccess, StoragePath]:
    """Return the path of an upload. Raise a Problem unless the caller may store a file there."""
    access.parent.require(Right.WRITE)
    if access.is_mount_or_ancestor() or access.path == access.base:
        raise NotAFile(f"failed get storage: storage not found; rawPath: {access.path}")
    access.find_mount("")
    check_name(access.path.name)
    if access.tree.settings.ignore_system_files and (
        access.path.name in SYSTEM_FILES or access.path.name.startswith("._")
    ):
        raise AccessDenied("system file upload ignored")
    storage_path = await access.locate()
    if not storage_path.driver.capabilities.write:
        raise StorageProblem("upload not supported")
    return await choose_path(access, storage_path, is_folder=False)


async def make_folder(access: PathAccess, storage_path: StoragePath) -> None:
    """Make the folder and its missing parents, if the storage has folders."""
    if storage_path.path == "/":
        return
    entry = await find_recent(storage_path)
    if entry is not None:
        if not entry.is_dir:
            raise FileInPath(f"failed to make dir [{storage_path.path}]: file exists")
        return
    if storage_path.driver.capabilities.makedirs:
        await check_missing_folders(access, storage_path)
        try:
            await name_locks.makedirs(storage_path)
        except EntryExists as problem:
            raise FileInPath(f"failed to make dir [{storage_path.path}]: {problem.message}") from problem
        except StorageProblem as problem:
            raise problem.with_prefix(f"failed to make dir [{storage_path.path}]") from problem


async def refuse_form(access: PathAccess) -> None:
    """Raise the two refusals that have their own messages for a form upload."""
    try:
        mount, _ = access.find_mount()
    except StorageProblem as problem:
        raise FormNotMounted(problem.message) from None
    if not (await mount.get_driver()).capabilities.write:
        raise UploadRefused


async def verify_hashes(body: AsyncIterator[bytes], hashes: Mapping[str, str]) -> AsyncIterator[bytes]:
    """Yield the body. Raise BadRequest at its end if a hash does not match, so that nothing is stored."""
    digests = {kind: hashlib.new(kind) for kind in hashes}
    async for chunk in body:
        for digest in digests.values():
            digest.update(chunk)
        yield chunk
    for kind, digest in digests.items():
        if digest.hexdigest() != hashes[kind].lower():
            raise make_mismatch(kind)


def make_mismatch(kind: str) -> BadRequest:
    """Return the problem of bytes that do not match a hash."""
    return BadRequest(f"the received bytes do not match X-File-{kind.capitalize()}")
