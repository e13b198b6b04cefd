"""The machine that brings bytes from here to there: uploads, copies and moves between storages.

Plan writes down what there is to carry, Move carries it in order, Settle says how it ended. The rights of whoever
asked are looked up anew by every slice.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from mangrove.checkpoints import reached
from mangrove.drivers.base import CopiesFrom, CopyRequest, Driver, Entry, MakesDirectories, Removes, RemovesEmpty
from mangrove.identity.rights import Right
from mangrove.paths import TreePath
from mangrove.problems import BadRequest, Denied, Exists, NotFound, NotSupported, Problem, StorageProblem, Unreachable
from mangrove.tasks import authorization, file_copy, staging
from mangrove.tasks.authorization import Goal
from mangrove.tasks.file_copy import Endpoint, SourceVersion, TargetListing
from mangrove.tasks.kinds import State
from mangrove.tasks.manifest import Manifest
from mangrove.tasks.steps import Run
from mangrove.tree import mounts
from mangrove.tree.access import PathAccess
from mangrove.tree.changes import forget_upwards
from mangrove.tree.mounts import Located, select_mount

RIGHTS = {
    "copy": Right.COPY,
    "move": Right.MOVE,
    "upload": Right.WRITE,
    "offline_download_transfer": Right.OFFLINE_DOWNLOAD,
    "decompress_upload": Right.DECOMPRESS,
}
STAGED_GOES = {
    "delete_on_upload_succeed": (State.SUCCEEDED,),
    "delete_on_upload_failed": (State.FAILED,),
    "delete_always": (State.SUCCEEDED, State.FAILED),
}  # when the bytes that were brought into staging go: behaviour 5.16
SMALL = 4 << 20  # bytes; smaller files are carried several at once
AT_ONCE = 16
BATCH = 256
SAVE_SECONDS = 0.5
SAME = "the source and the target are the same"
KEPT_ERRORS = 3  # failed items named in the task's error


@dataclass(frozen=True, slots=True)
class TransferRoute:
    """Both ends of a transfer, as the one who asked may use them now. `place` is None when the source is staged."""

    source: Endpoint
    goal: Goal
    place: PathAccess | None

    @property
    def target(self) -> Endpoint:
        return self.goal.end


async def _route(run: Run) -> TransferRoute:
    spec = run.spec
    who = await authorization.caller(run.task, RIGHTS[run.task.kind])
    goal = await authorization.goal(who, spec["target"], spec["name"])
    if spec["staged"]:
        return TransferRoute(Endpoint(await staging.driver(), TreePath(spec["staged"])), goal, None)
    place = await authorization.place(who, spec["source"], spec["password"])
    if who.declared_right is Right.MOVE:
        place.with_path(place.path.parent).require(Right.MOVE)
    place.require_export(who.declared_right is Right.MOVE)
    located = await place.locate()
    if who.declared_right is Right.MOVE and not isinstance(located.driver, Removes):
        raise NotSupported
    return TransferRoute(Endpoint(located.driver, located.path), goal, place)


async def plan(run: Run) -> bool:
    """Write down every entry below the source, folders before what they hold; more while there are folders left."""
    if run.cursor.get("turn") == run.task.attempt and run.cursor.get("planned"):
        return False
    if run.cursor.get("planned"):
        _again(run)
        return False
    route = await _route(run)
    run.cursor = {"folders": 0, "walked": 0, "entries": 0, "bytes": 0} | run.cursor
    entries = Manifest(run.task.id, "entries-0", run.cursor["entries"])
    folders = Manifest(run.task.id, "folders", run.cursor["folders"])
    if not run.cursor["entries"]:
        run.view["status"] = "getting src object"
        await _first(run, route, entries, folders)
    try:
        while run.cursor["walked"] < folders.count:
            for name in await folders.rows(run.cursor["walked"]):
                total = run.cursor.get("total", 0) + await _walk(route, name, entries, folders)
                run.cursor["walked"] += 1
                run.cursor |= {"entries": entries.count, "folders": folders.count, "total": total}
                if not run.has_time():
                    return True
    finally:
        await entries.flush()
        await folders.flush()
    total = run.cursor.pop("total", 0)
    run.view["total_bytes"] = total
    run.cursor |= {
        "planned": True,
        "turn": run.task.attempt,
        "at": 0,
        "round": 0,
        "failed": 0,
        "bytes": 0,
        "total": total,
    }
    return False


def _again(run: Run) -> None:
    """The next run of a planned task: what failed, then what was not reached."""
    run.cursor["turn"] = run.task.attempt
    if run.cursor["at"] >= run.cursor["entries"] and run.cursor["failed"]:
        run.cursor |= {"round": run.cursor["round"] + 1, "entries": run.cursor["failed"], "at": 0, "failed": 0}
    run.cursor["errors"] = []


async def _first(run: Run, route: TransferRoute, entries: Manifest, folders: Manifest) -> None:
    if route.place is None:
        await authorization.prepare(route.goal)
    found = await route.source.driver.stat(route.source.path)
    if route.place is not None and route.source.path == "/":
        raise StorageProblem("the root of a storage cannot be carried")
    total = await _note("", found, entries, folders)
    run.cursor |= {"entries": entries.count, "folders": folders.count, "total": total}


async def _note(name: str, entry: Entry, entries: Manifest, folders: Manifest) -> int:
    """Write an entry down; its bytes."""
    await entries.append([name, entry.size or 0, entry.modified, entry.is_dir, entry.etag])
    if entry.is_dir:
        await folders.append(name)
        return 0
    return entry.size or 0


async def _walk(route: TransferRoute, name: str, entries: Manifest, folders: Manifest) -> int:
    """Write down what a folder holds; its bytes."""
    total = 0
    place = route.place.child(name) if route.place is not None and name else route.place
    visibility = place.make_visibility_filter() if place is not None else None
    if place is not None and name and place.is_mount_or_ancestor():
        return 0
    async for batch in route.source.driver.list((route.source / name).path):
        for entry in batch:
            if not entry.is_link and (visibility is None or visibility.passes(entry)):
                total += await _note(f"{name}/{entry.name}".lstrip("/"), entry, entries, folders)
    return total


async def move(run: Run) -> bool:
    """Carry what is next; more while there is something left and, after a move, folders to take away."""
    route = await _route(run)
    cursor = run.cursor
    run.view["status"] = "uploading"
    entries = Manifest(run.task.id, f"entries-{cursor['round']}", cursor["entries"])
    failed = Manifest(run.task.id, f"entries-{cursor['round'] + 1}", cursor["failed"])
    near = TargetListing(route.target.driver)
    saved = time.monotonic()
    while rows := await entries.rows(cursor["at"]):
        for batch in _batches(rows):
            try:
                await _carry(run, route, batch, failed, near)
            except file_copy.OutOfTime:
                forget_upwards(Located(route.target.driver, route.target.path, route.goal.mount))
                return True
            reached("move.batch")
            cursor["at"] += len(batch)
            if time.monotonic() - saved > SAVE_SECONDS or not run.has_time():
                await _saved(run)
                saved = time.monotonic()
            if not run.has_time():
                forget_upwards(Located(route.target.driver, route.target.path, route.goal.mount))
                return True
    await _saved(run)
    forget_upwards(Located(route.target.driver, route.target.path, route.goal.mount))
    if cursor["failed"]:
        raise StorageProblem(_summary(run))
    if run.task.kind == "move":
        return await _tidy(run, route)
    return False


async def _saved(run: Run) -> None:
    run.progress(run.cursor["bytes"])
    await run.save()


def _summary(run: Run) -> str:
    return f"{run.cursor['failed']} of {run.cursor['entries']} items failed: {'; '.join(run.cursor['errors'])}"


def _batches(rows: list[Any]) -> list[list[Any]]:
    """Small files together, as many as BATCH; folders and large files by themselves."""
    batches: list[list[Any]] = []
    open_batch = False
    for row in rows:
        small = not row[3] and row[1] <= SMALL
        if small and open_batch and len(batches[-1]) < BATCH:
            batches[-1].append(row)
        else:
            batches.append([row])
        open_batch = small
    return batches


async def _carry(run: Run, route: TransferRoute, batch: list[Any], failed: Manifest, near: TargetListing) -> None:
    """One batch; an item that fails is named and the others go on. Unreachable ends the slice: it is worth a retry.

    What failed is written down before the cursor goes on: whoever follows would never come back to it.
    """
    attempt = asyncio.Semaphore(AT_ONCE)

    async def one(row: Any) -> Problem | None:
        async with attempt:
            try:
                await _item(run, route, row, near)
            except Unreachable:
                raise
            except (StorageProblem, BadRequest, Denied) as problem:
                await file_copy.drop(run, route.target.driver, (route.target / row[0]).path)
                return problem
        return None

    results = await _taken(run, route, batch)
    left = [index for index, result in enumerate(results) if isinstance(result, Exists)]
    for index, result in zip(left, await file_copy.together(one(batch[index]) for index in left), strict=True):
        results[index] = result
    for row, problem in zip(batch, results, strict=True):
        if problem is None:
            run.cursor["bytes"] += 0 if row[3] else row[1]
            continue
        await failed.append(row)
        errors, error = run.cursor.setdefault("errors", []), f"{row[0] or run.spec['name']}: {problem.message}"
        if len(errors) < KEPT_ERRORS and error not in errors:
            errors.append(error)
    if failed.count > run.cursor["failed"]:
        await failed.flush()
        run.cursor["failed"] = failed.count


async def _taken(run: Run, route: TransferRoute, batch: list[Any]) -> list[Problem | None]:
    """What happened to the files that the target copied by itself; Exists for all that are to be looked at one by one:
    something stands there, or more is to be done than copying small files."""
    driver, spec, rest = route.target.driver, run.spec, [Exists() for _ in batch]
    plain = run.task.kind != "move" and not spec["leave"] and not run.cursor["round"]
    if not plain or not isinstance(driver, CopiesFrom) or batch[0][3] or batch[0][1] > SMALL:
        return list(rest)
    refused = [route.goal.refusal(row[0]) for row in batch]
    files = [
        CopyRequest((route.source / name).path, (route.target / name).path, size, modified, spec["overwrite"])
        for (name, size, modified, _, _), refusal in zip(batch, refused, strict=True)
        if refusal is None
    ]
    half = len(files) // 2 + 1
    parts = await file_copy.together(
        driver.copy_from(route.source.driver, part) for part in (files[:half], files[half:])
    )
    if parts[0] is None or parts[1] is None:
        return list(rest)
    taken = iter([*parts[0], *parts[1]])
    return [next(taken) if refusal is None else refusal for refusal in refused]


async def _item(run: Run, route: TransferRoute, row: Any, near: TargetListing) -> None:
    name, size, modified, is_dir, etag = row
    refusal = route.goal.refusal(name)
    if refusal is not None:
        raise refusal
    source, target = (route.source / name, route.target / name) if name else (route.source, route.target)
    if is_dir:
        if not isinstance(target.driver, MakesDirectories):
            raise NotSupported
        await target.driver.makedirs(target.path)
        if run.task.kind == "move" and await file_copy.one_thing(source, target):
            raise StorageProblem(SAME)
        return
    spec, moving = run.spec, run.task.kind == "move"
    try:
        file = SourceVersion(size, modified, etag)
        if run.cursor["round"]:  # what failed is tried again with the file as it is now
            found = await source.driver.stat(source.path)
            file = SourceVersion(found.size or 0, found.modified, found.etag)
        ours = await file_copy.copy_file(
            run, source, target, file, near, overwrite=spec["overwrite"], leave=spec["leave"]
        )
    except NotFound:
        there = await target.entry()
        if not moving or there is None or there.size != size or await source.entry() is not None:
            raise
        await file_copy.drop(run, target.driver, target.path)
        return  # carried by a worker that died before it could say so
    if not moving:
        return
    assert isinstance(source.driver, Removes)
    if await file_copy.one_thing(source, target):
        raise StorageProblem(SAME)
    if ours or await file_copy.alike(source, target):
        reached("move.verified")
        await source.driver.remove(source.path)
        reached("move.removed")
    elif not spec["leave"]:
        raise Exists


async def _tidy(run: Run, route: TransferRoute) -> bool:
    """Take away the folders that a move has emptied, the deepest first; what is not empty stays."""
    folders = Manifest(run.task.id, "folders", run.cursor["folders"])
    left = run.cursor.setdefault("untidied", folders.count)
    while left:
        start = (left - 1) - (left - 1) % 1000
        rows = (await folders.rows(start))[: left - start]
        for name in reversed(rows):
            await _remove_empty(route.source.driver, (route.source / name).path if name else route.source.path)
            reached("move.tidied")
            left -= 1
            run.cursor["untidied"] = left
            if not run.has_time():
                return True
    if route.place is not None:
        forget_upwards(await route.place.locate())
    return False


async def _remove_empty(driver: Driver, path: TreePath) -> None:
    try:
        if isinstance(driver, RemovesEmpty):
            await driver.remove_empty(path)
            return
        async for batch in driver.list(path):
            if batch:
                return
        if isinstance(driver, Removes):
            await driver.remove(path)
    except NotFound:
        pass  # gone with what was below


async def clean(run: Run, state: State) -> None:
    """Drop the parts of an unfinished file; what is staged goes when its policy says so, or nobody can ask for more."""
    if "file" in run.cursor:
        mount, _ = select_mount(await mounts.ready(), TreePath(run.spec["target"]))  # whatever rights are left
        await file_copy.drop(run, await mount.get_driver())
    if run.task.gone or state in STAGED_GOES.get(run.spec["policy"], ()):
        for id in {run.task.id, run.spec["staged"].split("/")[1]} if run.spec["staged"] else {run.task.id}:
            await staging.clear(id)
