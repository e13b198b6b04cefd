"""The verb that stores a body: checked before the first byte is read, streamed, whole or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

from mangrove.drivers.base import Driver, MakesDirectories, Upload, Writes
from mangrove.identity.rights import Right
from mangrove.paths import TreePath, check_name
from mangrove.problems import BadRequest, Collision, Denied, Exists, NotFound, StorageProblem, UploadRefused
from mangrove.tree.access import PathAccess, look
from mangrove.tree.changes import check_missing, forget_upwards
from mangrove.tree.mounts import Mount

SYSTEM_FILES = {".DS_Store", "desktop.ini", "Thumbs.db", "@eaDir"}


async def write(
    access: PathAccess, body: AsyncIterator[bytes], upload: Upload, *, overwrite: bool = True, hashes: Mapping[str, str]
) -> None:
    """Store `body` at the spot, making missing folders; `hashes` (md5, sha1, sha256 in hex) must fit the bytes.

    Everything that can be refused is refused before `body` is touched. A body that is cut, too long, or does
    not fit its hashes leaves no file and the old one as it was.
    """
    driver, inner, mount = await admitted(access, overwrite)
    assert isinstance(driver, Writes)
    try:
        await driver.write(inner, checked(body, hashes), replace(upload, exclusive=not overwrite))
    except Exists:
        if overwrite:
            raise
        raise Collision from None
    except StorageProblem as problem:
        raise problem.with_prefix(f"failed to store [{access.path.name}]") from problem
    finally:
        forget_upwards(mount, inner)


async def admitted(access: PathAccess, overwrite: bool) -> tuple[Driver, TreePath, Mount]:
    """The driver, path and mount of an upload that is allowed; its folder exists afterwards."""
    access.require(Right.WRITE, access.path.parent)
    mount, inner = _storage(access)
    check_name(access.path.name)
    if access.settings.ignore_system_files and (access.path.name in SYSTEM_FILES or access.path.name.startswith("._")):
        raise Denied("system file upload ignored")
    driver = await mount.running()
    if driver.config.no_upload or not isinstance(driver, Writes):
        raise StorageProblem("upload not supported")
    try:
        found = await look(driver, inner, mount)
    except NotFound:
        await _parents(access.with_path(access.path.parent), driver, inner.parent, mount)
    else:
        if not overwrite or access.rules.hidden(access.caller.user, access.path):
            raise Collision
        if found.is_dir:
            raise Exists
    return driver, inner, mount


def _storage(access: PathAccess) -> tuple[Mount, TreePath]:
    if access.is_mount_or_ancestor() or access.path == access.base:
        raise StorageProblem(f"failed get storage: storage not found; rawPath: {access.path}")
    try:
        return access.mount()
    except StorageProblem as problem:
        raise problem.with_prefix("failed get storage") from None


async def _parents(access: PathAccess, driver: Driver, folder: TreePath, mount: Mount) -> None:
    if folder == "/":
        return
    try:
        if (await look(driver, folder, mount)).is_dir:
            return
        raise Exists(f"failed to make dir [{folder}]: file exists")
    except NotFound:
        pass
    if isinstance(driver, MakesDirectories):
        await check_missing(access, driver, folder, mount)
        try:
            await driver.makedirs(folder)
        except StorageProblem as problem:
            raise problem.with_prefix(f"failed to make dir [{folder}]") from problem
        forget_upwards(mount, folder)


async def refuse_form(access: PathAccess) -> None:
    """The two refusals that only the form upload words in its own way."""
    try:
        mount, _ = access.mount()
    except StorageProblem as problem:
        raise BadRequest(problem.message) from None
    driver = await mount.running()
    if driver.config.no_upload or not isinstance(driver, Writes):
        raise UploadRefused


async def checked(body: AsyncIterator[bytes], hashes: Mapping[str, str]) -> AsyncIterator[bytes]:
    """The body as it is; BadRequest at its end when a hash does not fit, so that nothing is stored."""
    sums = {kind: hashlib.new(kind) for kind in hashes}
    async for chunk in body:
        for digest in sums.values():
            digest.update(chunk)
        yield chunk
    for kind, digest in sums.items():
        if digest.hexdigest() != hashes[kind].lower():
            raise BadRequest(f"the received bytes do not match X-File-{kind.capitalize()}")
