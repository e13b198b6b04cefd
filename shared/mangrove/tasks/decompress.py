"""The machine that unpacks an archive: Plan looks into it, Extract brings its members into staging, Settle cleans up.

A transfer goes on with what is in staging. Entries that are refused are named in the task's error; the others are
brought all the same.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from mangrove import archives
from mangrove.archives import Archive, Member
from mangrove.checkpoints import reached
from mangrove.config import config
from mangrove.drivers.base import Entry, MakesDirectories, Upload
from mangrove.identity.rights import Right
from mangrove.paths import TreePath
from mangrove.problems import ArchiveTooLarge, BadRequest, BrokenArchive, Denied, NotFound, StorageProblem, Unreachable
from mangrove.site import snapshot
from mangrove.tasks import authorization, file_copy, kinds, queue, staging
from mangrove.tasks.file_copy import Endpoint, SourceVersion, TargetListing
from mangrove.tasks.kinds import State
from mangrove.tasks.steps import Run
from mangrove.tree import archives as tree_archives
from mangrove.tree.archives import Packed

SLICE_SECONDS = 60.0  # on one machine: where late members are reached through all others, a slice begins at the first
SAVE_SECONDS = 0.5
KEPT_ERRORS = 3  # refused entries named in the task's error
CACHED = "archive"  # the whole archive in staging


async def plan(run: Run) -> bool:
    """See that it is an archive that can be read, and how much comes out of it; bring it here first if so asked."""
    if run.cursor.get("turn") != run.task.attempt:
        run.cursor = {"turn": run.task.attempt, "at": 0, "bytes": 0, "files": 0, "refused": 0, "errors": []}
    if await asyncio.to_thread(queue.is_chained, run.task, start=False):
        return False  # what was brought here may be gone by now
    run.view["status"] = "getting src object"
    end, entry = await _source(run)
    if run.spec["cache_full"] and not run.cursor.get("cached"):
        try:
            await _cache(run, end, entry)
        except file_copy.OutOfTime:
            return True
    total, found = 0, False
    async with _opened(run) as archive:
        if archive.sequential:
            return False  # to look into it is to unpack it
        async for member in archive.iter_members():
            if not member.refused and _below(run, member) is not None:
                found = True
                total += 0 if member.is_dir else member.size or 0
    if not found and run.spec["inner"] != "/":
        raise NotFound
    run.view["total_bytes"] = total
    return False


async def _source(run: Run) -> tuple[Endpoint, Entry]:
    """The archive, as the one who asked may read it, and what it was when the work began."""
    spec = run.spec
    who = await authorization.caller(run.task, Right.DECOMPRESS)
    await authorization.goal(who, spec["target"], spec["name"])
    place = (await authorization.place(who, spec["source"], spec["password"])).require_read()
    located = await place.locate()
    end = Endpoint(located.driver, located.path)
    entry = await end.driver.stat(end.path)
    if entry.is_dir:
        raise StorageProblem("not a file")
    was = run.cursor.setdefault("archive", [entry.size or 0, entry.modified, entry.etag])
    if not SourceVersion(*was).same(entry):
        raise StorageProblem("the source changed since the task began")
    return end, entry


async def _cache(run: Run, end: Endpoint, entry: Entry) -> None:
    store = await staging.driver()
    target = Endpoint(store, staging.place(queue.stage(run.task), CACHED))
    assert isinstance(store, MakesDirectories)
    await store.makedirs(target.path.parent)
    file = SourceVersion(entry.size or 0, entry.modified, entry.etag)
    await file_copy.copy_file(run, end, target, file, TargetListing(store), overwrite=True, leave=False)
    reached("unpack.cached")
    run.cursor["cached"] = True


@asynccontextmanager
async def _opened(run: Run) -> AsyncIterator[Archive]:
    end, entry = await _source(run)
    if run.cursor.get("cached"):
        end = Endpoint(await staging.driver(), staging.place(queue.stage(run.task), CACHED))
    settings = (await snapshot.fresh()).settings
    name = TreePath(run.spec["source"]).name
    packed, limits = Packed(end.driver, end.path, entry.size or 0), tree_archives.make_limits(settings)
    encoding, password = settings["non_efs_zip_encoding"], run.spec["archive_pass"]
    async with archives.open_archive(name, packed, password, encoding, limits) as archive:
        yield archive


def _below(run: Run, member: Member) -> str | None:
    """Where a member goes below the target: the folder that was asked for itself, with all it holds; None: nowhere."""
    inner = run.spec["inner"].strip("/")
    if not inner:
        return member.path
    if member.path != inner and not member.path.startswith(f"{inner}/"):
        return None
    above = inner.rpartition("/")[0]
    return member.path.removeprefix(f"{above}/") if above else member.path


async def extract(run: Run) -> bool:
    """Bring what is next into staging; at the end, hand it on."""
    cursor = run.cursor
    run.view["status"] = "walking and decompressing"
    if not await asyncio.to_thread(queue.is_chained, run.task):  # by a worker that died before it could say so
        if await _unpack(run):
            return True
        await _source(run)  # a mixture of what it was and what it is must go nowhere
        await run.save()
        await _hand_on(run)
    cursor["handed"] = True
    if cursor["refused"]:
        entries = "entry is" if cursor["refused"] == 1 else "entries are"
        raise StorageProblem(f"{cursor['refused']} {entries} not unpacked: {'; '.join(cursor['errors'])}")
    return False


async def _unpack(run: Run) -> bool:
    """Bring what is next into staging; whether there is more."""
    cursor = run.cursor
    began = saved = time.monotonic()
    first = 0.0
    async with _opened(run) as archive:
        if not cursor.get("folders"):
            await _folders(run, archive)
            reached("unpack.folders")
        async for index, member, blocks in archive.iter_contents(lambda index, one: _wanted(run, index, one)):
            first = first or time.monotonic()
            with _noted(run, member):
                await _keep(run, member, blocks)
                reached("unpack.member")
            cursor["at"] = index + 1
            if time.monotonic() - saved > SAVE_SECONDS:
                await run.save()
                saved = time.monotonic()
            if not run.has_time() and _worth_it(first - began, time.monotonic() - first):
                return True
    return False


def _worth_it(way: float, work: float) -> bool:
    """Whether a slice has done so much that its successor may go all the way to the next member again. Else an archive
    with much before many small members would never end."""
    return work >= way or not config().on_one_machine


@contextmanager
def _noted(run: Run, member: Member) -> Iterator[None]:
    """A member that cannot be kept is named, and the others go on."""
    try:
        yield
    except (ArchiveTooLarge, Unreachable):
        raise
    except (BrokenArchive, StorageProblem, BadRequest, Denied) as problem:
        _note(run, member, problem.message)


def _note(run: Run, member: Member, why: str) -> None:
    run.cursor["refused"] += 1
    if len(run.cursor["errors"]) < KEPT_ERRORS:
        run.cursor["errors"].append(f"{member.path}: {why}")


def _wanted(run: Run, index: int, member: Member) -> bool:
    return index >= run.cursor["at"] and _below(run, member) is not None


async def _folders(run: Run, archive: Archive) -> None:
    """Make the folders, also empty ones, and note what is refused: once, before the files."""
    store = await staging.driver()
    assert isinstance(store, MakesDirectories)
    body = staging.place(queue.stage(run.task), staging.BODY)
    await store.makedirs(body)
    run.cursor |= {"refused": 0, "errors": []}
    found = run.spec["inner"] == "/"
    async for member in archive.iter_members():
        below = _below(run, member)
        if member.refused:
            if below is not None:
                _note(run, member, member.refused)
            continue
        found = found or below is not None
        if below and member.is_dir:
            with _noted(run, member):
                await store.makedirs(TreePath(f"{body}/{below}"))
    if not found:
        raise NotFound
    run.cursor["folders"] = True


async def _keep(run: Run, member: Member, blocks: AsyncIterator[bytes]) -> None:
    upload = Upload(member.size, member.modified or time.time())
    path = f"{staging.BODY}/{_below(run, member)}"
    stored = await staging.keep(queue.stage(run.task), path, _counted(run, blocks), upload)
    run.cursor["bytes"] += stored
    run.cursor["files"] += 1


async def _counted(run: Run, blocks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The blocks, while all slices together stay within what an archive may unpack to."""
    have, most = run.cursor["bytes"], tree_archives.make_limits(snapshot.current().settings).size
    async for block in blocks:
        have += len(block)
        if most and have > most:
            raise ArchiveTooLarge
        run.progress(have)
        yield block


async def _hand_on(run: Run) -> None:
    """Open the transfer of what was unpacked."""
    spec = run.spec
    goal = await authorization.goal(
        await authorization.caller(run.task, Right.DECOMPRESS), spec["target"], spec["name"]
    )
    handed = {
        "source": "",
        "password": "",
        "staged": staging.place(queue.stage(run.task), staging.BODY),
        "target": spec["target"],
        "name": spec["name"],
        "overwrite": spec["overwrite"],
        "leave": False,
        "policy": "delete_on_upload_succeed",
    }
    base = archives.base_name(TreePath(spec["source"]).name)
    folder = goal.end.path.parent if spec["name"] else goal.end.path
    name = kinds.upload_name(base, goal.mount.path, folder)
    await asyncio.to_thread(queue.chain, "decompress_upload", run.task, name, handed, run.cursor["bytes"])
    reached("unpack.handed")


async def clean(run: Run, state: State) -> None:
    """Drop what nobody goes on with."""
    if "file" in run.cursor:
        await file_copy.drop(run, await staging.driver())
    if not run.cursor.get("handed") and not await asyncio.to_thread(queue.is_chained, run.task, start=False):
        await staging.clear(queue.stage(run.task))
    elif run.cursor.get("cached"):
        await staging.forget(queue.stage(run.task), CACHED)
