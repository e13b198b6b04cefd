"""The machine that brings a file from an address: Begin asks the tool, Poll looks how far it is, Settle cleans up.

What arrives waits in staging; a transfer goes on with it. SimpleHttp is this service itself: its Poll fetches, part
by part, and continues where it was cut off when the server can.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from mangrove.checkpoints import reached
from mangrove.config import config
from mangrove.drivers.base import MakesDirectories, Parts, Upload, list_all, make_parts_key
from mangrove.identity.rights import Right
from mangrove.paths import TreePath
from mangrove.problems import NotFound, Problem, StorageProblem, Unreachable
from mangrove.records import tasks as records
from mangrove.records.base import RecordMissing
from mangrove.records.tasks import Task
from mangrove.site import snapshot
from mangrove.tasks import authorization, file_copy, kinds, queue, staging
from mangrove.tasks.file_copy import MOST_PIECES
from mangrove.tasks.kinds import State
from mangrove.tasks.steps import Run
from mangrove.tasks.transfer import STAGED_GOES
from mangrove.tools import http, registry
from mangrove.tools.base import Status, Tool
from mangrove.tools.registry import SIMPLE_HTTP

SLICE_SECONDS = 60.0  # that one machine fetches before it asks anew: every slice is a request
PART = 16 << 20  # bytes of a file that are under way at once
PATIENCE = 5  # looks in a row that a tool may fail to answer
SHORTEST, LONGEST = 3, 300  # seconds between two looks
MIB = 1 << 20


async def begin(run: Run) -> bool:
    """Hand the address to its tool."""
    await _goal(run)
    if run.cursor.get("turn") != run.task.attempt:
        run.cursor = {"turn": run.task.attempt, "begun": time.time()}
    name = run.spec["tool"]
    if name != SIMPLE_HTTP and "token" not in run.cursor:
        tool = await _tool(name)
        folder = await asyncio.to_thread(staging.folder, _stage(run), staging.BODY)
        run.cursor["token"] = await tool.add(run.spec["url"], folder, f"{run.task.id}-{run.task.attempt}")
        reached("download.asked")
    return True


async def poll(run: Run) -> bool:
    """See how far it is, or fetch on; when the file is there, hand it on."""
    await _goal(run)
    if run.spec["tool"] != SIMPLE_HTTP:
        return await _look(run)
    if not run.cursor.get("whole") and await _went_on(run):
        return True
    await _hand_on(run, run.spec["policy"])
    return False


async def _went_on(run: Run) -> bool:
    """Fetch on. A connection that broke after it brought something is made again at once, however often."""
    before = _parts(run)
    try:
        return await _fetch(run)
    except Unreachable:
        if _parts(run) <= before:
            raise
        return True


def _parts(run: Run) -> int:
    """How many parts of the file are stored."""
    return len(run.cursor.get("file", {}).get("receipts", ()))


def _stage(run: Run) -> str:
    """The name under which this run keeps what arrives."""
    return queue.stage(run.task)


async def _goal(run: Run) -> authorization.Goal:
    who = await authorization.caller(run.task, Right.OFFLINE_DOWNLOAD)
    return await authorization.goal(who, run.spec["target"], "")


async def _tool(name: str) -> Tool:
    return registry.make_tool(name, (await snapshot.fresh()).settings)


async def _look(run: Run) -> bool:
    cursor, name = run.cursor, run.spec["tool"]
    tool = await _tool(name)
    try:
        status = await tool.get_status(cursor["token"])
    except Unreachable as problem:
        cursor["missed"] = cursor.get("missed", 0) + 1
        if cursor["missed"] > PATIENCE:
            raise StorageProblem(f"failed to get status of {run.task.id}, retried {PATIENCE} times") from problem
        return _later(run)
    cursor |= {"missed": 0, "token": status.token}
    if status.error:
        raise StorageProblem(f"[{name}]: {status.error}")
    most = snapshot.current().settings.number("offline_download_max_size") * MIB
    _bounded(max(status.total, status.downloaded), most)
    run.view |= {"status": status.text, "total_bytes": status.total}
    run.progress(status.downloaded)
    if not status.done:
        return _later(run)
    return await _arrived(run, tool, status)


def _later(run: Run) -> bool:
    """Look again; the longer it takes, the less often, so that a cloud execution's history lasts for weeks."""
    run.wait = SHORTEST
    if not config().on_one_machine:
        run.wait = min(max(SHORTEST, int((time.time() - run.cursor["begun"]) / 20)), LONGEST)
    return True


async def _arrived(run: Run, tool: Tool, status: Status) -> bool:
    """Every byte is there. While the tool still gives the files to others, they stay where they are."""
    if status.seeds_forever:
        await staging.pin(_stage(run))
    shared = status.seeding or status.seeds_forever
    await _hand_on(run, "delete_never" if shared or run.cursor.get("shared") else run.spec["policy"])
    if status.seeding:
        run.cursor["shared"] = True
        run.view["status"] = "offline download completed, waiting for seeding"
        return _later(run)
    if run.cursor.get("shared") and (following := await _following(run)) and not following.done:
        return _later(run)
    await tool.remove_completed(run.cursor["token"])
    return False


async def _following(run: Run) -> Task | None:
    """The transfer of what arrived, unless somebody took it off the board."""
    try:
        return await asyncio.to_thread(records.get, queue.following(_stage(run)))
    except RecordMissing:
        return None


async def _hand_on(run: Run, policy: str) -> None:
    """Open the transfer of what has arrived: one entry by its name, several into the folder itself."""
    goal = await _goal(run)
    if await asyncio.to_thread(queue.is_chained, run.task):
        return  # by a worker that died before it could say so; what arrived may be gone by now
    body = staging.place(_stage(run), staging.BODY)
    arrived = await list_all(await staging.driver(), body)
    if not arrived:
        raise StorageProblem("nothing arrived")
    single = arrived[0].name if len(arrived) == 1 else ""
    spec = {
        "source": "",
        "password": "",
        "staged": body / single if single else body,
        "target": run.spec["target"],
        "name": single,
        "overwrite": True,
        "leave": False,
        "policy": policy,
    }
    name = kinds.brought_name(TreePath("/") / (single or staging.BODY), goal.mount.path, goal.end.path)
    size = sum(entry.size or 0 for entry in arrived)
    if run.spec["tool"] != SIMPLE_HTTP:
        run.view["status"] = "offline download completed, maybe transferring"
    await asyncio.to_thread(queue.chain, "offline_download_transfer", run.task, name, spec, size)
    reached("download.handed")


async def _fetch(run: Run) -> bool:
    """Fetch with SimpleHttp until the end of the slice, when the server lets us continue; whether there is more."""
    settings = (await snapshot.fresh()).settings
    allowed = registry.make_address_policy(settings)
    most = settings.number("offline_download_max_size") * MIB
    state: dict[str, Any] = run.cursor.get("file", {})
    offset = _parts(run) * state.get("length", PART)
    if offset > state.get("size", 0):  # the last part is shorter
        return await _finish(run, await _store(), state)
    async with http.fetch(run.spec["url"], allowed, offset, state.get("validator", "")) as answer:
        _bounded(answer.size or 0, most)
        if not answer.offset and state:
            await _drop(run)
            state = {}
        run.view["total_bytes"] = answer.size or 0
        length = state.get("length") or _length(answer.size)
        pieces = _pieces(answer.iter_blocks(), length)
        first = await anext(pieces, b"")
        _bounded(len(first), most)
        if not state and len(first) < length:
            await staging.keep(_stage(run), f"{staging.BODY}/{answer.name}", _once(first), _upload(len(first)))
            reached("download.whole")
            return await _complete(run)
        return await _stored(run, answer, length, first, pieces, most)


def _length(size: int | None) -> int:
    """Bytes of a piece of a file of this size: two are under way at once, and the record names every one."""
    return PART if size is None else max(PART // 2, -(-size // MOST_PIECES))


def _bounded(size: int, most: int) -> None:
    """Refuse a file of more than `most` bytes; 0 is no bound."""
    if most and size > most:
        raise StorageProblem(f"the file has more than the {most // MIB} MiB that are allowed")


async def _stored(
    run: Run, answer: http.FetchResponse, length: int, first: bytes, pieces: AsyncIterator[bytes], most: int
) -> bool:
    """Store what arrives as parts, the next one fetched while one is stored; whether there is more."""
    store, state = await _begun(run, answer, length)
    path, receipts = TreePath(state["path"]), state["receipts"]
    size, piece = int(state["size"]), first
    while piece:
        storing = asyncio.ensure_future(
            store.write_part(path, state["token"], len(receipts) + 1, len(receipts) * length, piece)
        )
        following = asyncio.ensure_future(anext(pieces, b""))
        try:
            await asyncio.wait([storing])
            reached("download.part")
            receipts.append(storing.result())
            size += len(piece)
            state["size"] = size
            run.progress(size)
            await run.save()
            _bounded(size, most)
            await asyncio.wait([following])
        except BaseException:
            following.cancel()
            await asyncio.wait([storing, following])  # what arrives after the parts are dropped would stay for ever
            raise
        piece = following.result()
        if piece and answer.resumable and not run.has_time():
            return True
    return await _finish(run, store, state)


async def _store() -> Parts:
    store = await staging.driver()
    assert isinstance(store, Parts)
    return store


async def _finish(run: Run, store: Parts, state: dict[str, Any]) -> bool:
    """Make one file of all parts, where a worker that died has not done so."""
    path = TreePath(state["path"])
    try:
        await store.finish(path, state["token"], state["receipts"], _upload(state["size"]))
    except NotFound:
        if await file_copy.Endpoint(await staging.driver(), path).entry() is None:
            raise
    reached("download.finished")
    run.cursor.pop("file")
    return await _complete(run)


async def _complete(run: Run) -> bool:
    """Note that every byte is here, before anybody takes it away."""
    run.cursor["whole"] = True
    await run.save()
    return False


async def _begun(run: Run, answer: http.FetchResponse, length: int) -> tuple[Parts, dict[str, Any]]:
    store = await _store()
    if "file" not in run.cursor:
        path = staging.place(_stage(run), staging.BODY) / answer.name
        key, validator = make_parts_key(), answer.validator if answer.resumable else ""
        state = {"path": path, "key": key, "token": "", "receipts": [], "size": 0, "length": length}
        run.cursor["file"] = state | {"validator": validator}
        assert isinstance(store, MakesDirectories)
        await store.makedirs(path.parent)
        await run.save()
        reached("download.intended")
        run.cursor["file"]["token"] = await store.begin(path, _upload(None), key)
        reached("download.begun")
        await run.save()
    elif not run.cursor["file"]["token"]:
        await _drop(run)
        return await _begun(run, answer, length)
    return store, run.cursor["file"]


async def _drop(run: Run) -> None:
    """Forget what was fetched of a file so far."""
    await file_copy.drop(run, await staging.driver())


def _upload(size: int | None) -> Upload:
    return Upload(size, time.time())


async def _pieces(blocks: AsyncIterator[bytes], length: int) -> AsyncIterator[bytes]:
    """The bytes in pieces of `length`, the last one shorter."""
    held: list[bytes] = []
    have = 0
    async for block in blocks:
        held.append(block)
        have += len(block)
        if have >= length:
            whole = b"".join(held)
            yield whole[:length]
            held, have = [whole[length:]], have - length
    if have:
        yield b"".join(held)


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def clean(run: Run, state: State) -> None:
    """End what the tool still does, and drop what nobody goes on with."""
    if "file" in run.cursor:
        await _drop(run)
    if state is not State.SUCCEEDED or run.task.gone:
        await _stop(run)
    if state is State.SUCCEEDED and run.cursor.get("shared"):
        following = await _following(run)
        if following is None or following.view["state"] in STAGED_GOES.get(run.spec["policy"], ()):
            await staging.clear(_stage(run))
    elif state is not State.SUCCEEDED and (run.cursor.get("shared") or await _following(run) is None):
        await staging.clear(_stage(run))


async def _stop(run: Run) -> None:
    if "token" not in run.cursor:
        return
    try:
        await (await _tool(run.spec["tool"])).remove(run.cursor["token"])
    except Problem:
        pass  # the tool is gone; it forgets by itself
