"""What callers ask for that may take long: done at once where a storage can, else put on the board."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import httpx

from mangrove import archives
from mangrove.checkpoints import reached
from mangrove.drivers.base import Driver, StoresUrls, Upload, Writes
from mangrove.identity.rights import Right
from mangrove.paths import TreePath, check_existing_name
from mangrove.problems import BadRequest, NotFound, NotSupported, Problem, StorageProblem
from mangrove.records.tasks import Task
from mangrove.tasks import authorization, kinds, queue, staging
from mangrove.tools import names as names_of
from mangrove.tools import registry
from mangrove.tools import urls as addresses
from mangrove.tree import transfers, uploads
from mangrove.tree.access import PathAccess, look
from mangrove.tree.changes import forget_upwards, running, source
from mangrove.tree.transfers import Item, OnConflict

KEEP_FOR_RETRY = "delete_on_upload_succeed"
POLICIES = ("delete_on_upload_succeed", "delete_on_upload_failed", "delete_never", "delete_always")
MOST_TASKS = 10_000  # opened by one request


@dataclass(frozen=True, slots=True)
class DecompressOptions:
    """How an archive is to be unpacked; `inner`: the folder or file in it that is wanted, `/` for all."""

    password: str = ""
    inner: str = "/"
    cache_full: bool = False
    into_new_dir: bool = False
    overwrite: bool = False


async def move(
    source_dir: PathAccess, target_dir: PathAccess, names: Sequence[str], conflict: OnConflict
) -> list[Task]:
    """Move entries; the tasks for what could not be done at once."""
    _few(names if _apart(source_dir, target_dir) else ())
    left = await transfers.move(source_dir, target_dir, names, conflict)
    _few(left)
    return [await _opened("move", "move", source_dir, target_dir, item, conflict) for item in left]


async def copy(
    source_dir: PathAccess, target_dir: PathAccess, names: Sequence[str], conflict: OnConflict
) -> list[Task]:
    """Copy entries; the tasks for what could not be done at once."""
    _few(names if _apart(source_dir, target_dir) else ())
    left = await transfers.copy(source_dir, target_dir, names, conflict)
    _few(left)
    word = "merge" if conflict.merge else "copy"
    return [await _opened("copy", word, source_dir, target_dir, item, conflict) for item in left]


async def _opened(
    kind: str, word: str, source_dir: PathAccess, target_dir: PathAccess, item: Item, conflict: OnConflict
) -> Task:
    place, into = source_dir.child(item.name), target_dir.child(item.name)
    name = kinds.transfer_name(
        word, source_dir.mount()[0].path, item.path, target_dir.mount()[0].path, item.target.parent
    )
    spec = {
        "source": place.path,
        "password": source_dir.password,
        "staged": "",
        "target": into.path.parent,
        "name": into.path.name,
        "overwrite": conflict.overwrite,
        "leave": conflict.merge or conflict.skip,
        "policy": KEEP_FOR_RETRY,
    }
    return await asyncio.to_thread(queue.open, kind, source_dir.caller.user, name, spec)


async def decompress(
    source_dir: PathAccess, target_dir: PathAccess, names: Sequence[str], wanted: DecompressOptions
) -> list[Task]:
    """Unpack archives of one folder into another: one task for each."""
    _few(names)
    target_dir.require(Right.DECOMPRESS)
    tasks = []
    for name in dict.fromkeys(names):
        check_existing_name(name)
        tasks.append(await _unpacked(source_dir.child(name), target_dir, wanted))
    return tasks


async def _unpacked(place: PathAccess, target_dir: PathAccess, wanted: DecompressOptions) -> Task:
    driver, inner, mount = await running(place.require_read(), "src")
    await source(place, driver, inner, mount)
    target, into, target_mount = await running(target_dir, "dst")
    if mount.path == target_mount.path:
        await transfers.folder(target, into, target_mount)
    _takes_files(target)
    within = TreePath(wanted.inner or "/")
    name = kinds.decompress_name(mount.path, inner, within, target_mount.path, into, wanted.password)
    spec = {
        "source": place.path,
        "password": place.password,
        "archive_pass": wanted.password,
        "inner": within,
        "cache_full": wanted.cache_full,
        "target": target_dir.path,
        "name": archives.base_name(place.path.name) if wanted.into_new_dir else "",
        "overwrite": wanted.overwrite,
    }
    return await asyncio.to_thread(queue.open, "decompress", place.caller.user, name, spec)


async def download(target: PathAccess, urls: Sequence[str], tool: str, policy: str) -> list[Task]:
    """Bring files from addresses into a folder, one task for each; none where the storage keeps addresses itself.

    All are checked before the first is begun.
    """
    registry.known(tool)
    given = [url.strip() for url in urls if url.strip()]
    _few(given)
    wanted = [addresses.checked(url, tool) for url in given]
    policy = policy or "delete_never"
    if policy not in POLICIES:
        raise BadRequest(f"delete_policy must be one of {', '.join(POLICIES)}")
    target.require(Right.OFFLINE_DOWNLOAD)
    driver = await _receiving(target, tool)
    if tool == registry.SIMPLE_HTTP and isinstance(driver, StoresUrls):
        return await _referred(target, wanted)
    if tool != registry.SIMPLE_HTTP:
        await registry.opened(tool, target.settings)
    tasks = []
    for url in wanted:
        spec = {"url": url, "tool": tool, "policy": policy, "target": target.path}
        name = kinds.download_name(url, target.path)
        opened = partial(queue.open, "offline_download", target.caller.user, name, spec)
        tasks.append(await asyncio.to_thread(opened))
    return tasks


async def _receiving(target: PathAccess, tool: str) -> Driver:
    """The storage that downloads go to; a folder that is missing is made later."""
    driver, inner, mount = await running(target)
    if not (tool == registry.SIMPLE_HTTP and isinstance(driver, StoresUrls)):
        _takes_files(driver)
    try:
        if not (await look(driver, inner, mount)).is_dir:
            raise NotSupported("not a folder")
    except NotFound:
        pass
    return driver


def _takes_files(driver: Driver) -> None:
    if driver.config.no_upload or not isinstance(driver, Writes):
        raise StorageProblem("upload not supported")


async def _referred(target: PathAccess, urls: Sequence[str]) -> list[Task]:
    goal = await authorization.goal(target.caller, target.path, "")
    driver, inner, mount = goal.end.driver, goal.end.path, goal.mount
    assert isinstance(driver, StoresUrls)
    await authorization.prepare(goal)
    for url in urls:
        await driver.put_url(inner / names_of.of(httpx.URL(url), ""), url)
        forget_upwards(mount, inner)
    return []


def _apart(one: PathAccess, other: PathAccess) -> bool:
    """Whether two places are in different storages, so that every item takes a task."""
    try:
        return one.mount()[0].path != other.mount()[0].path
    except StorageProblem:
        return False  # there is no storage: for others to say


def _few(wanted: Sequence[object]) -> None:
    if len(wanted) > MOST_TASKS:
        raise BadRequest(f"{len(wanted)} tasks in one request, at most {MOST_TASKS} are opened")


async def upload(
    access: PathAccess, body: AsyncIterator[bytes], sent: Upload, overwrite: bool, hashes: Mapping[str, str]
) -> Task:
    """Receive a body whole, then store it in the background. What can be refused is refused before it is read."""
    _, inner, mount = await uploads.admitted(access, overwrite)
    id = queue.new_id()
    try:
        size = await staging.keep(id, staging.BODY, uploads.checked(body, hashes), sent)
        reached("upload.staged")
    except BaseException:
        await asyncio.shield(staging.clear(id))
        raise
    spec = {
        "source": "",
        "password": "",
        "staged": staging.place(id, staging.BODY),
        "target": access.path.parent,
        "name": access.path.name,
        "overwrite": overwrite,
        "leave": False,
        "policy": KEEP_FOR_RETRY,
    }
    name = kinds.upload_name(access.path.name, mount.path, inner.parent)
    opened = partial(queue.open, "upload", access.caller.user, name, spec, size, "uploading", id)
    try:
        return await asyncio.to_thread(opened)
    except Problem:
        await staging.clear(id)  # no task is there to go on with it
        raise
