"""Requests that may take long. They are done within the request if the storage can, otherwise enqueued as tasks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mangrove import archives
from mangrove.core import deadlines
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.chunked import iterate_chunked
from mangrove.core.deadlines import TimeBudget
from mangrove.core.paths import TreePath, check_existing_name, check_name
from mangrove.core.problems import (
    AccessDenied,
    BadRequest,
    EntryNotFound,
    NameConflict,
    NotAFolder,
    OutOfTime,
    Problem,
    StorageProblem,
)
from mangrove.drivers.base import Driver, Upload
from mangrove.identity.rights import Caller, Right
from mangrove.records.tasks import model as records
from mangrove.records.tasks.model import Task
from mangrove.tasks.compress.declaration import CompressSpec
from mangrove.tasks.compress.packers import check_archive_name
from mangrove.tasks.core import authorization, model, queue, staging
from mangrove.tasks.core.model import DELETE_NEVER, DELETE_POLICIES, ManifestEntry, State
from mangrove.tasks.core.queue import TaskRequest
from mangrove.tasks.decompress.declaration import DecompressSpec
from mangrove.tasks.download.declaration import DownloadSpec
from mangrove.tasks.enqueue import (
    MAX_SINGLE_TASKS,
    TransferEnqueuer,
    enqueue,
    enqueue_empty_folder_removal,
    enqueue_list,
    enqueue_many,
    enqueue_removal,
    enqueue_restore,
)
from mangrove.tasks.transfer.declaration import TransferSpec
from mangrove.tools import registry
from mangrove.tree.access import PathAccess
from mangrove.tree.listing.lookups import Lookups, find_entry, look_up
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import changes, journal, transfers, uploads
from mangrove.tree.operations.name_locks import lock_name
from mangrove.tree.operations.plans import OnConflict, TransferItem, TransferRequest, check_source, check_target_folder
from mangrove.tree.trash import entries as trash_entries
from mangrove.tree.trash import restoring

MAX_TASKS_PER_REQUEST = 10_000
MIN_POLL_SECONDS, MAX_POLL_SECONDS = 0.02, 0.5  # between two checks of a task that a request waits for


@dataclass(frozen=True, slots=True)
class DecompressOptions:
    """The options of an extraction."""

    password: str = ""
    inner: str = "/"
    """The file or folder in the archive to extract, `/` for all."""
    cache_full: bool = False
    into_new_dir: bool = False
    overwrite: bool = False

    def make_spec(self, source: PathAccess, target_dir: PathAccess, name: str = "", **listed: Any) -> DecompressSpec:
        """Return the specification of a task. `listed`: the fields of one over many archives."""
        return DecompressSpec(
            source=source.path, password=source.password, archive_password=self.password,
            inner=TreePath(self.inner or "/"), cache_full=self.cache_full, target_dir=target_dir.path, name=name,
            overwrite=self.overwrite, **listed,
        )  # fmt: skip


async def transfer(request: TransferRequest) -> list[Task]:
    """Move or copy entries. Return the tasks for the remaining ones."""
    return await TransferEnqueuer(request).enqueue(await transfers.transfer(request, TimeBudget()))


async def wait(task: Task, seconds: float) -> bool:
    """Wait for a task. Return True if it succeeds within that time. Raise StorageProblem with its error if it fails."""
    end, pause = time.monotonic() + seconds, MIN_POLL_SECONDS
    while not (task := await asyncio.to_thread(records.get, task.id)).done:
        if time.monotonic() > end:
            return False
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, MAX_POLL_SECONDS)
    if task.view.state != State.SUCCEEDED:
        raise StorageProblem(task.view.error or "the task was cancelled")
    return True


async def rename(access: PathAccess, name: str, overwrite: bool) -> list[Task]:
    """Rename an entry. Return the task if the request could not finish it."""
    return await _enqueue_renames(access.parent, await transfers.rename(access, name, overwrite, TimeBudget()))


async def rename_all(folder: PathAccess, new_names: Mapping[str, str]) -> list[Task]:
    """Rename entries of a folder, by their old names. Return the tasks for the remaining ones."""
    return await _enqueue_renames(folder, await transfers.rename_all(folder, new_names, budget=TimeBudget()))


async def rename_by_pattern(folder: PathAccess, pattern: str, template: str) -> list[Task]:
    """Rename the entries that match a pattern. Return the tasks for the remaining ones."""
    return await _enqueue_renames(folder, await transfers.rename_by_pattern(folder, pattern, template, TimeBudget()))


async def _enqueue_renames(folder: PathAccess, left: Sequence[TransferItem]) -> list[Task]:
    conflict = OnConflict(overwrite=any(item.overwrite for item in left))
    return await TransferEnqueuer(TransferRequest(Right.MOVE, folder, folder, (), conflict)).enqueue(left)


async def move_files(source_dir: PathAccess, target_dir: PathAccess, policy: str) -> tuple[int, list[Task]]:
    """Move every file of a tree into a folder. Return the number of moved files, and the tasks for the others."""
    outcome = await transfers.move_files(source_dir, target_dir, policy, TimeBudget())
    conflict = OnConflict(overwrite=policy == "overwrite", skip=policy == "skip")
    enqueuer = TransferEnqueuer(TransferRequest(Right.MOVE, source_dir, target_dir, (), conflict))
    return outcome.done, await enqueuer.enqueue(outcome.left) if outcome.is_whole else [await enqueuer.enqueue_flat()]


async def remove(folder: PathAccess, names: Sequence[str]) -> list[Task]:
    """Remove entries of a folder with all their content. Return the task for the rest."""
    left = await changes.remove(folder, names, TimeBudget())
    return [await enqueue_removal(folder, left)] if left else []


async def restore(
    caller: Caller, ids: Sequence[str], overwrite: bool, password: str
) -> tuple[trash_entries.TrashResult, Task | None]:
    """Restore entries of the trash. Return the outcome, and the task for the rest."""
    outcome = await restoring.restore(caller, ids, overwrite, password, TimeBudget())
    return outcome, await enqueue_restore(outcome.left, overwrite, password) if outcome.left else None


async def remove_empty(folder: PathAccess) -> list[Task]:
    """Remove the folders below a folder that do not contain a file. Return the task if the time was too short."""
    try:
        with deadlines.limit(TimeBudget().get_seconds()):
            await changes.remove_empty(folder)
    except OutOfTime:
        return [await enqueue_empty_folder_removal(folder)]
    return []


async def decompress(
    source_dir: PathAccess, target_dir: PathAccess, names: Sequence[str], options: DecompressOptions
) -> list[Task]:
    """Extract archives of a folder into another one. Return a task for each, or one for many."""
    _limit_tasks(names)
    target_dir.require(Right.DECOMPRESS)
    target_dir.require_read()  # a task reports which names are taken
    distinct = list(dict.fromkeys(map(check_existing_name, names)))
    if len(distinct) > MAX_SINGLE_TASKS:
        return [await _enqueue_decompress_list(source_dir, target_dir, distinct, options)]
    return [await _enqueue_decompress(source_dir.child(name), target_dir, options) for name in distinct]


async def _enqueue_decompress_list(
    source_dir: PathAccess, target_dir: PathAccess, names: Sequence[str], options: DecompressOptions
) -> Task:
    """Enqueue one task for many archives. The task looks each of them up."""
    async for name in iterate_chunked(names):
        source_dir.child(name).require_read()
    source = await source_dir.locate("src")
    path = model.format_many(source.path / names[0], len(names))
    task_name = await _name_decompress(source, path, target_dir, options)

    def make_spec(count: int) -> DecompressSpec:
        return options.make_spec(source_dir, target_dir, count=count, into_new_dir=options.into_new_dir)

    return await enqueue_list("decompress", source_dir, task_name, map(ManifestEntry, names), make_spec)


async def _enqueue_decompress(archive: PathAccess, target_dir: PathAccess, options: DecompressOptions) -> Task:
    source = await archive.require_read().locate("src")
    await check_source(archive, Lookups(source.parent, {}))
    task_name = await _name_decompress(source, source.path, target_dir, options)
    name = archives.base_name(archive.path.name) if options.into_new_dir else ""
    return await enqueue("decompress", archive, TaskRequest(task_name, options.make_spec(archive, target_dir, name)))


async def _name_decompress(source: StoragePath, path: str, target_dir: PathAccess, options: DecompressOptions) -> str:
    """Return the name of the extraction of `path` in the storage of `source`. Raise StorageProblem for the target."""
    target = await target_dir.locate("dst")
    if source.mount.path == target.mount.path:
        await check_target_folder(target)
    _require_uploads(target.driver)
    return model.format_decompress_name(
        source.mount.path, path, TreePath(options.inner or "/"), target.mount.path, target.path, options.password
    )


async def compress(source_dir: PathAccess, target_dir: PathAccess, names: Sequence[str], name: str) -> Task:
    """Pack entries of a folder, or all if there are no `names`, into a new archive of another folder. Return the task.

    BadRequest unless the name ends in `.zip` or `.tar.gz`. NameConflict if it is taken.
    """
    check_archive_name(check_name(name))
    target_dir.require(Right.WRITE)
    target_dir.require_read()  # a task tells which names are taken
    target = await target_dir.locate("dst")
    _require_uploads(target.driver)
    await check_target_folder(target)
    if target_dir.child(name).is_hidden():
        raise AccessDenied
    if await find_entry(target.child(name)) is not None:
        raise NameConflict
    return await _enqueue_compress(source_dir, names, target_dir.path, name, target.child(name))


async def pack_into_staging(source_dir: PathAccess, names: Sequence[str], name: str, id: str = "") -> Task:
    """Pack entries of a folder, or all if there are no `names`, into an archive in staging. Return the task.

    The task for the visitor of a share link belongs to the owner of the link. `id`: "" for a new one.
    """
    return await _enqueue_compress(source_dir, names, "", name, None, id)


async def _enqueue_compress(
    source_dir: PathAccess, names: Sequence[str], target_dir: str, name: str, target: StoragePath | None, id: str = ""
) -> Task:
    entries = list(dict.fromkeys(map(check_existing_name, names)))
    if not entries:
        source_dir.require_read()
    mount_path, inner = _find_source(source_dir)
    first = inner / entries[0] if entries else inner
    packed = model.format_many(first, max(len(entries), 1))
    if target is None:
        task_name = model.format_staged_archive_name(mount_path, packed, name)
    else:
        task_name = model.format_transfer_name("compress", mount_path, packed, target.mount.path, target.path.parent)

    def make_spec(count: int) -> CompressSpec:
        share = source_dir.share
        if share is None:
            source, password, number = source_dir.path, source_dir.password, 0
        else:
            source, password, number = inner, "", share.link.number
        return CompressSpec(
            source_dir=source, share=number, password=password, count=count, target_dir=target_dir, name=name
        )

    if not entries:
        return await enqueue("compress", source_dir, TaskRequest(task_name, make_spec(0), id=id))
    rows = map(ManifestEntry, entries)
    return await enqueue_list("compress", source_dir, task_name, rows, make_spec, id)


def _find_source(folder: PathAccess) -> tuple[TreePath, TreePath]:
    """Return the mount path of a folder and the path in its storage; of a share link the root, and the path in it."""
    if folder.share is not None:
        return TreePath("/"), folder.share.find_path(folder.path)
    mount, inner = folder.find_mount("src")
    return mount.path, inner


async def download(target: PathAccess, urls: Sequence[str], tool: str, policy: str) -> list[Task]:
    """Download URLs into a folder. Return a task for each, or one for many that the service fetches itself; none if the
    storage downloads URLs itself.

    All URLs are checked before the first task is enqueued.
    """
    from mangrove.tools.urls import normalize_url  # it needs httpx, which no other request here imports

    registry.check_tool_name(tool)
    requested_urls = [url.strip() for url in urls if url.strip()]
    _limit_tasks(requested_urls)
    checked_urls = [normalize_url(url, tool) async for url in iterate_chunked(requested_urls)]
    policy = policy if policy in DELETE_POLICIES else DELETE_NEVER
    target.require(Right.OFFLINE_DOWNLOAD)
    target.require_read()  # a task reports which names are taken
    driver = await _find_receiver(target, tool)
    if tool == registry.SIMPLE_HTTP and driver.capabilities.put_url:
        await _store_urls(target, checked_urls)
        return []
    if tool != registry.SIMPLE_HTTP:
        await registry.connect_tool(tool, target.tree.settings)
    tools = {url: registry.choose_tool(tool, url, target.tree.settings) for url in checked_urls}
    listed_urls = [url for url in checked_urls if tools[url] == registry.SIMPLE_HTTP]
    tasks = []
    if len(listed_urls) > MAX_SINGLE_TASKS:
        tasks.append(await _enqueue_download_list(target, listed_urls, policy))
        checked_urls = [url for url in checked_urls if tools[url] != registry.SIMPLE_HTTP]
    requests = (
        TaskRequest(
            model.format_download_name(url, target.path),
            DownloadSpec(url=url, tool=tools[url], delete_policy=policy, target_dir=target.path),
        )
        for url in checked_urls
    )
    return tasks + await enqueue_many("offline_download", target, requests)


async def _enqueue_download_list(target: PathAccess, urls: Sequence[str], policy: str) -> Task:
    """Enqueue one task for many URLs that the service fetches itself."""

    def make_spec(count: int) -> DownloadSpec:
        return DownloadSpec(
            url="", count=count, tool=registry.SIMPLE_HTTP, delete_policy=policy, target_dir=target.path
        )

    rows = map(ManifestEntry, urls)
    name = model.format_download_name(f"{urls[0]} and {len(urls) - 1} more", target.path)
    return await enqueue_list("offline_download", target, name, rows, make_spec)


async def _find_receiver(target: PathAccess, tool: str) -> Driver:
    """Return the storage of the target folder. A missing folder is made later."""
    storage_path = await target.locate("")
    driver = storage_path.driver
    if not (tool == registry.SIMPLE_HTTP and driver.capabilities.put_url):
        _require_uploads(driver)
    try:
        if not (await look_up(storage_path)).is_dir:
            raise NotAFolder
    except EntryNotFound:
        pass
    return driver


def _require_uploads(driver: Driver) -> None:
    if not driver.capabilities.write:
        raise StorageProblem("upload not supported")


async def _store_urls(folder: PathAccess, urls: Sequence[str]) -> None:
    """Store URLs as files of a folder."""
    from httpx import URL  # imported here, see above

    from mangrove.tools.names import make_file_name

    target = await authorization.resolve_target(folder.caller, folder.path, "")
    driver = target.storage_path.driver
    await authorization.make_target_folder(target)
    for url in urls:
        storage_path = target.storage_path.child(make_file_name(URL(url), ""))
        async with journal.add(storage_path), lock_name(storage_path):
            await driver.put_url(storage_path.path, url)


def _limit_tasks(items: Sequence[object]) -> None:
    if len(items) > MAX_TASKS_PER_REQUEST:
        raise BadRequest(f"{len(items)} tasks in one request, the maximum is {MAX_TASKS_PER_REQUEST}")


async def upload(
    access: PathAccess, body: AsyncIterator[bytes], sent: Upload, overwrite: bool, hashes: Mapping[str, str]
) -> Task:
    """Receive a body, then store it in the background.

    Everything that can be refused is refused before the body is read.
    """
    access, storage_path = await uploads.prepare(access, overwrite)
    id = queue.make_id()
    try:
        size = await staging.store(id, staging.BODY, uploads.verify_hashes(body, hashes), sent)
        pass_checkpoint("upload.staged")
    except BaseException:
        await asyncio.shield(staging.clear(id))
        raise
    spec = TransferSpec(
        source=staging.get_path(id, staging.BODY),
        target_dir=access.path.parent,
        name=access.path.name,
        overwrite=overwrite,
    )
    name = model.format_upload_name(access.path.name, storage_path.mount.path, storage_path.path.parent)
    try:
        return await enqueue("upload", access, TaskRequest(name, spec, size, "uploading", id))
    except Problem:
        await staging.clear(id)  # no task will use the body
        raise
