"""Requests that may take long: done at once where a storage can, else queued as tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

import httpx

from mangrove import archives
from mangrove.checkpoints import pass_checkpoint
from mangrove.drivers.base import Driver, StoresUrls, Upload, Writes
from mangrove.identity.rights import Right
from mangrove.paths import TreePath, check_existing_name
from mangrove.problems import BadRequest, NotAFolder, NotFound, Problem, StorageProblem
from mangrove.records.tasks import Task
from mangrove.tasks import authorization, kinds, queue, staging
from mangrove.tasks.kinds import DELETE_NEVER, DELETE_POLICIES
from mangrove.tasks.specs import DecompressSpec, DownloadSpec, Spec, TransferSpec
from mangrove.tools import registry
from mangrove.tools import urls as addresses
from mangrove.tools.names import make_file_name
from mangrove.tree import transfers, uploads
from mangrove.tree.access import PathAccess, locate, lookup
from mangrove.tree.changes import check_source, forget_upwards
from mangrove.tree.transfers import Item, OnConflict

MOST_TASKS = 10_000  # opened by one request


@dataclass(frozen=True, slots=True)
class DecompressOptions:
    """How to extract an archive; `inner`: the folder or file in it that is wanted, `/` for all."""

    password: str = ""
    inner: str = "/"
    cache_full: bool = False
    into_new_dir: bool = False
    overwrite: bool = False


async def move(
    source_dir: PathAccess, target_dir: PathAccess, names: Sequence[str], conflict: OnConflict
) -> list[Task]:
    """Move entries; the tasks for what could not be done at once."""
    _limit_tasks(names if _are_in_two_storages(source_dir, target_dir) else ())
    left = await transfers.move(source_dir, target_dir, names, conflict)
    _limit_tasks(left)
    return [await _open_transfer("move", "move", source_dir, target_dir, item, conflict) for item in left]


async def copy(
    source_dir: PathAccess, target_dir: PathAccess, names: Sequence[str], conflict: OnConflict
) -> list[Task]:
    """Copy entries; the tasks for what could not be done at once."""
    _limit_tasks(names if _are_in_two_storages(source_dir, target_dir) else ())
    left = await transfers.copy(source_dir, target_dir, names, conflict)
    _limit_tasks(left)
    word = "merge" if conflict.merge else "copy"
    return [await _open_transfer("copy", word, source_dir, target_dir, item, conflict) for item in left]


async def _open_transfer(
    kind: str, word: str, source_dir: PathAccess, target_dir: PathAccess, item: Item, conflict: OnConflict
) -> Task:
    source_access, target_access = source_dir.child(item.name), target_dir.child(item.name)
    name = kinds.format_transfer_name(
        word, source_dir.find_mount()[0].path, item.path, target_dir.find_mount()[0].path, item.target.parent
    )
    spec = TransferSpec(
        source=source_access.path,
        password=source_dir.password,
        target_dir=target_access.path.parent,
        name=target_access.path.name,
        overwrite=conflict.overwrite,
        keep_existing=conflict.merge or conflict.skip,
    )
    return await _open(kind, source_dir, name, spec)


async def decompress(
    source_dir: PathAccess, target_dir: PathAccess, names: Sequence[str], options: DecompressOptions
) -> list[Task]:
    """Extract archives of one folder into another: one task for each."""
    _limit_tasks(names)
    target_dir.require(Right.DECOMPRESS)
    tasks = []
    for name in dict.fromkeys(names):
        check_existing_name(name)
        tasks.append(await _open_decompress(source_dir.child(name), target_dir, options))
    return tasks


async def _open_decompress(archive: PathAccess, target_dir: PathAccess, options: DecompressOptions) -> Task:
    source = await locate(archive.require_read(), "src")
    await check_source(archive, source)
    target = await locate(target_dir, "dst")
    if source.mount.path == target.mount.path:
        await transfers.check_target_folder(target)
    _require_uploads(target.driver)
    within = TreePath(options.inner or "/")
    name = kinds.format_decompress_name(
        source.mount.path, source.path, within, target.mount.path, target.path, options.password
    )
    spec = DecompressSpec(
        source=archive.path,
        password=archive.password,
        archive_password=options.password,
        inner=within,
        cache_full=options.cache_full,
        target_dir=target_dir.path,
        name=archives.base_name(archive.path.name) if options.into_new_dir else "",
        overwrite=options.overwrite,
    )
    return await _open("decompress", archive, name, spec)


async def _open(
    kind: str, access: PathAccess, name: str, spec: Spec, size: int = 0, status: str = "", id: str = ""
) -> Task:
    return await asyncio.to_thread(queue.open, kind, access.caller.user, name, spec, size, status, id)


async def download(target: PathAccess, urls: Sequence[str], tool: str, policy: str) -> list[Task]:
    """Download addresses into a folder, one task for each; none where the storage stores addresses itself.

    All are checked before the first task is opened.
    """
    registry.check_tool_name(tool)
    given = [url.strip() for url in urls if url.strip()]
    _limit_tasks(given)
    checked = [addresses.normalize_url(url, tool) for url in given]
    policy = policy or DELETE_NEVER
    if policy not in DELETE_POLICIES:
        raise BadRequest(f"delete_policy must be one of {', '.join(DELETE_POLICIES)}")
    target.require(Right.OFFLINE_DOWNLOAD)
    driver = await _find_receiver(target, tool)
    if tool == registry.SIMPLE_HTTP and isinstance(driver, StoresUrls):
        await _store_urls(target, checked)
        return []
    if tool != registry.SIMPLE_HTTP:
        await registry.connect_tool(tool, target.settings)
    tasks = []
    for url in checked:
        spec = DownloadSpec(url=url, tool=tool, delete_policy=policy, target_dir=target.path)
        tasks.append(await _open("offline_download", target, kinds.format_download_name(url, target.path), spec))
    return tasks


async def _find_receiver(target: PathAccess, tool: str) -> Driver:
    """The storage that downloads go to; a folder that is missing is made later."""
    located = await locate(target)
    driver = located.driver
    if not (tool == registry.SIMPLE_HTTP and isinstance(driver, StoresUrls)):
        _require_uploads(driver)
    try:
        if not (await lookup(located)).is_dir:
            raise NotAFolder
    except NotFound:
        pass
    return driver


def _require_uploads(driver: Driver) -> None:
    if driver.config.no_upload or not isinstance(driver, Writes):
        raise StorageProblem("upload not supported")


async def _store_urls(folder: PathAccess, urls: Sequence[str]) -> None:
    """Store addresses as files of a folder."""
    target = await authorization.resolve_target(folder.caller, folder.path, "")
    driver = target.endpoint.driver
    assert isinstance(driver, StoresUrls)
    await authorization.make_target_folder(target)
    for url in urls:
        await driver.put_url(target.endpoint.path / make_file_name(httpx.URL(url), ""), url)
        forget_upwards(target.located)


def _are_in_two_storages(one: PathAccess, other: PathAccess) -> bool:
    """Whether two folders are in different storages, so that every item takes a task."""
    try:
        return one.find_mount()[0].path != other.find_mount()[0].path
    except StorageProblem:
        return False  # there is no storage: refused later, with its own message


def _limit_tasks(items: Sequence[object]) -> None:
    if len(items) > MOST_TASKS:
        raise BadRequest(f"{len(items)} tasks in one request, at most {MOST_TASKS} are opened")


async def upload(
    access: PathAccess, body: AsyncIterator[bytes], sent: Upload, overwrite: bool, hashes: Mapping[str, str]
) -> Task:
    """Receive a body whole, then store it in the background. What can be refused is refused before it is read."""
    located = await uploads.prepare(access, overwrite)
    id = queue.make_id()
    try:
        size = await staging.store(id, staging.BODY, uploads.verify_hashes(body, hashes), sent)
        pass_checkpoint("upload.staged")
    except BaseException:
        await asyncio.shield(staging.clear(id))
        raise
    spec = TransferSpec(
        staged=staging.get_path(id, staging.BODY),
        target_dir=access.path.parent,
        name=access.path.name,
        overwrite=overwrite,
    )
    name = kinds.format_upload_name(access.path.name, located.mount.path, located.path.parent)
    try:
        return await _open("upload", access, name, spec, size, "uploading", id)
    except Problem:
        await staging.clear(id)  # no task is there to go on with it
        raise
