"""Requests that may take long: done at once where a storage can, else queued as tasks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

from mangrove import archives, runtime
from mangrove.checkpoints import pass_checkpoint
from mangrove.drivers.base import Driver, StoresUrls, Upload, Writes
from mangrove.identity.rights import Right
from mangrove.paths import TreePath, check_existing_name
from mangrove.problems import BadRequest, NotAFolder, NotFound, Problem, StorageProblem
from mangrove.records import tasks as records
from mangrove.records.tasks import Task
from mangrove.slices import in_slices
from mangrove.tasks import authorization, kinds, queue, staging
from mangrove.tasks.kinds import DELETE_NEVER, DELETE_POLICIES, State
from mangrove.tasks.queue import Opening
from mangrove.tasks.specs import DecompressSpec, DownloadSpec, TransferSpec
from mangrove.tools import registry
from mangrove.tree import journal, transfers, uploads
from mangrove.tree.access import PathAccess, locate, lookup
from mangrove.tree.changes import check_source
from mangrove.tree.names import hold_name
from mangrove.tree.transfers import Item, OnConflict

MOST_TASKS = 10_000  # opened by one request
SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 0.5  # seconds between two looks at a task that is waited for


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
    return await _open_many(
        "move", source_dir, (_make_opening("move", source_dir, target_dir, item, conflict) for item in left)
    )


async def copy(
    source_dir: PathAccess, target_dir: PathAccess, names: Sequence[str], conflict: OnConflict
) -> list[Task]:
    """Copy entries; the tasks for what could not be done at once."""
    _limit_tasks(names if _are_in_two_storages(source_dir, target_dir) else ())
    left = await transfers.copy(source_dir, target_dir, names, conflict)
    _limit_tasks(left)
    word = "merge" if conflict.merge else "copy"
    return await _open_many(
        "copy", source_dir, (_make_opening(word, source_dir, target_dir, item, conflict) for item in left)
    )


async def move_to(source: PathAccess, target: PathAccess, overwrite: bool) -> Task | None:
    """Move an entry to a path in another folder; the task, if it could not be done at once."""
    left = await transfers.move_to(source, target, overwrite)
    return await _open_one("move", source, target, left, overwrite)


async def copy_to(source: PathAccess, target: PathAccess, overwrite: bool) -> Task | None:
    """Copy an entry to a path; the task, if it could not be done at once."""
    left = await transfers.copy_to(source, target, overwrite)
    return await _open_one("copy", source, target, left, overwrite)


async def _open_one(
    kind: str, source: PathAccess, target: PathAccess, left: Sequence[Item], overwrite: bool
) -> Task | None:
    conflict = OnConflict(overwrite=overwrite)
    openings = (_make_opening(kind, source.parent, target.parent, item, conflict) for item in left)
    return next(iter(await _open_many(kind, source, openings)), None) if left else None


async def wait(task: Task, seconds: float) -> bool:
    """Whether a task has ended well within that time; StorageProblem with its reason when it failed."""
    end, pause = time.monotonic() + seconds, SHORTEST_PAUSE
    while not (task := await asyncio.to_thread(records.get, task.id)).done:
        if time.monotonic() > end:
            return False
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE)
    if task.view.state != State.SUCCEEDED:
        raise StorageProblem(task.view.error or "the task was cancelled")
    return True


def _make_opening(
    word: str, source_dir: PathAccess, target_dir: PathAccess, item: Item, conflict: OnConflict
) -> Opening:
    source_mount, target_mount = source_dir.find_mount()[0].path, target_dir.find_mount()[0].path
    name = kinds.format_transfer_name(word, source_mount, item.path, target_mount, item.target.parent)
    spec = TransferSpec(
        source=source_mount / item.path,
        password=source_dir.password,
        target_dir=target_mount / item.target.parent,
        name=item.target.name,
        overwrite=conflict.overwrite,
        keep_existing=conflict.merge or conflict.skip,
    )
    return Opening(name, spec)


async def decompress(
    source_dir: PathAccess, target_dir: PathAccess, names: Sequence[str], options: DecompressOptions
) -> list[Task]:
    """Extract archives of one folder into another: one task for each."""
    _limit_tasks(names)
    target_dir.require(Right.DECOMPRESS)
    target_dir.require_read()  # a task says which names are taken
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
    return await _open("decompress", archive, Opening(name, spec))


async def _open(kind: str, access: PathAccess, opening: Opening) -> Task:
    return await asyncio.to_thread(queue.open, kind, access.caller.user, opening)


class OpeningLocks:
    """Of one owner, one request at a time opens tasks: however many ask for ten thousand each, the threads are left to
    others."""

    def __init__(self) -> None:
        self._by_owner: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

    def get(self, owner: int) -> asyncio.Lock:
        """Whoever opens many tasks of this owner holds it."""
        return self._by_owner.setdefault(owner, asyncio.Lock())


async def _open_many(kind: str, access: PathAccess, openings: Iterable[Opening]) -> list[Task]:
    def open_all() -> list[Task]:  # in the thread: what thousands of specs take would hold up everybody
        return queue.open_many(kind, access.caller.user, list(openings))

    async with runtime.get(OpeningLocks).get(access.caller.user.id):
        return await asyncio.to_thread(open_all)


async def download(target: PathAccess, urls: Sequence[str], tool: str, policy: str) -> list[Task]:
    """Download addresses into a folder, one task for each; none where the storage stores addresses itself.

    All are checked before the first task is opened.
    """
    from mangrove.tools.urls import normalize_url  # it needs httpx, which no other request here does

    registry.check_tool_name(tool)
    given = [url.strip() for url in urls if url.strip()]
    _limit_tasks(given)
    checked = [normalize_url(url, tool) async for url in in_slices(given)]
    policy = policy if policy in DELETE_POLICIES else DELETE_NEVER
    target.require(Right.OFFLINE_DOWNLOAD)
    target.require_read()  # a task says which names are taken
    driver = await _find_receiver(target, tool)
    if tool == registry.SIMPLE_HTTP and isinstance(driver, StoresUrls):
        await _store_urls(target, checked)
        return []
    if tool != registry.SIMPLE_HTTP:
        await registry.connect_tool(tool, target.settings)
    openings = (
        Opening(
            kinds.format_download_name(url, target.path),
            DownloadSpec(
                url=url, tool=registry.choose_tool(tool, url, target.settings), delete_policy=policy,
                target_dir=target.path,
            ),
        )
        for url in checked
    )  # fmt: skip
    return await _open_many("offline_download", target, openings)


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
    from httpx import URL  # as above

    from mangrove.tools.names import make_file_name

    target = await authorization.resolve_target(folder.caller, folder.path, "")
    driver = target.endpoint.driver
    assert isinstance(driver, StoresUrls)
    await authorization.make_target_folder(target)
    for url in urls:
        located = target.located.child(make_file_name(URL(url), ""))
        async with journal.add(located), hold_name(located):
            await driver.put_url(located.path, url)


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
    access, located = await uploads.prepare(access, overwrite)
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
        return await _open("upload", access, Opening(name, spec, size, "uploading", id))
    except Problem:
        await staging.clear(id)  # no task is there to go on with it
        raise
