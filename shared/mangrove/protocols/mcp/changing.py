"""The tools that change the tree. The tools that move, copy or remove make a plan first.

A tool that moves, copies or removes first describes the operation, and performs it in a call with the plan. A plan is a
signed value. It has its expiry, and a signature over the user, the token, the operation with its arguments, and the
state of the entries that it changes. It is valid once.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import orjson

from mangrove.core.http import guess_mime
from mangrove.core.problems import BadRequest, EntryExists, StorageForbidden, TooLarge
from mangrove.drivers.base import Entry, Upload
from mangrove.identity.rights import Caller, Right
from mangrove.protocols.mcp.reading import MAX_FILE_BYTES
from mangrove.protocols.mcp.results import ToolCall, format_entry, make_data
from mangrove.records.share_links import ShareFields
from mangrove.records.store import counters
from mangrove.records.store.keys import Key, keyring
from mangrove.records.tasks.model import Task
from mangrove.tasks import submit
from mangrove.tasks.core import queue
from mangrove.tasks.core.registry import KINDS
from mangrove.tree.access import PathAccess
from mangrove.tree.listing import entries
from mangrove.tree.operations import changes, uploads
from mangrove.tree.operations.plans import TransferRequest
from mangrove.tree.sharing import administration

PLAN_SECONDS = 300
MAX_PLAN_LENGTH = 128  # characters


async def write_file(call: ToolCall) -> dict[str, Any]:
    """Store a file."""
    path = await call.at(right=Right.WRITE)
    content = _decode(call.arguments["content"], call.arguments.get("encoding", "text"))
    overwrite = bool(call.arguments.get("overwrite"))
    upload = Upload(len(content), time.time(), guess_mime(path.path.name), overwrite=overwrite)
    await uploads.write(path, _stream(content), upload, overwrite=overwrite, hashes={})
    return make_data({"path": call.show(path.path), "size": len(content)})


def _decode(text: str, encoding: str) -> bytes:
    try:
        content = base64.b64decode(text, validate=True) if encoding == "base64" else text.encode()
    except (binascii.Error, ValueError):
        raise BadRequest("the content is not valid in its encoding") from None
    if len(content) > MAX_FILE_BYTES:
        raise TooLarge(f"at most {MAX_FILE_BYTES} bytes can be written by one call")
    return content


async def _stream(content: bytes) -> AsyncIterator[bytes]:
    if content:
        yield content


async def make_folder(call: ToolCall) -> dict[str, Any]:
    """Make a folder."""
    path = await call.at(right=Right.WRITE)
    await changes.mkdir(path)
    return make_data({"path": call.show(path.path)})


async def move(call: ToolCall) -> dict[str, Any]:
    """Plan a move, or make a planned one. Within a folder it needs the right to rename, otherwise the right to move."""
    source, target = await call.at("source"), await call.at("target")
    is_same_folder = source.path.parent == target.path.parent
    return await _transfer(call, "move", Right.RENAME if is_same_folder else Right.MOVE)


async def copy(call: ToolCall) -> dict[str, Any]:
    """Plan a copy, or make a planned one."""
    return await _transfer(call, "copy", Right.COPY)


async def _transfer(call: ToolCall, tool: str, right: Right) -> dict[str, Any]:
    source, target = await call.at("source", right), await call.at("target", right)
    overwrite = bool(call.arguments.get("overwrite"))
    _refuse_root(source)
    _refuse_root(target)
    if right is not Right.COPY:
        source.parent.require(right)
    (target.parent if right is not Right.RENAME else source.parent).require(right)
    entry, replaced = await entries.stat(source), await entries.find_known(target)
    if replaced is not None and not overwrite:
        raise EntryExists(f"{call.show(target.path)} exists, and overwrite is not true")
    operation = {
        "tool": tool, "source": source.path, "target": target.path, "overwrite": overwrite,
        "state": [format_entry(entry), replaced and format_entry(replaced)],
    }  # fmt: skip
    plan = call.arguments.get("plan")
    if not plan:
        shown = {"tool": tool, "source": call.show(source.path), "target": call.show(target.path)}
        return _answer_plan(call, operation, shown | {"entry": format_entry(entry), "replaces": replaced is not None})
    await use_plan(call.caller, operation, plan)
    if right is Right.RENAME:
        return _answer_done(await submit.rename(source, target.path.name, overwrite))
    return _answer_done(await submit.transfer(TransferRequest.of_entry(right, source, target, overwrite)))


async def remove(call: ToolCall) -> dict[str, Any]:
    """Plan a removal, or make a planned one."""
    path = await call.at(right=Right.DELETE)
    _refuse_root(path)
    path.parent.require(Right.DELETE)
    entry: Entry = await entries.stat(path)
    operation = {"tool": "remove", "path": path.path, "state": format_entry(entry)}
    plan = call.arguments.get("plan")
    if not plan:
        shown = {"tool": "remove", "path": call.show(path.path), "entry": format_entry(entry)}
        return _answer_plan(call, operation, shown)
    await use_plan(call.caller, operation, plan)
    return _answer_done(await submit.remove(path.parent, [path.path.name]))


def _refuse_root(path: PathAccess) -> None:
    if path.path == path.base or path.is_mount_or_ancestor():
        raise StorageForbidden


def _answer_plan(call: ToolCall, operation: dict[str, Any], shown: dict[str, Any]) -> dict[str, Any]:
    plan = make_plan(call.caller, operation)
    return make_data(
        {"is_done": False, "operation": shown, "plan": plan, "expires_in_seconds": PLAN_SECONDS,
         "next": "Nothing has changed. Call this tool again with the same arguments and this plan to do it."}
    )  # fmt: skip


def _answer_done(tasks: Sequence[Task]) -> dict[str, Any]:
    """Return the result of an operation that is finished, or that tasks continue."""
    return make_data({"is_done": not tasks, "tasks": [{"kind": task.kind, "id": task.id} for task in tasks]})


async def cancel_task(call: ToolCall) -> dict[str, Any]:
    """Cancel a task."""
    kind = call.arguments["kind"]
    if kind not in KINDS:
        raise BadRequest("there is no such kind of tasks")
    await asyncio.to_thread(queue.cancel, kind, call.arguments["id"], call.caller)
    return make_data({"is_canceled": True})


async def share(call: ToolCall) -> dict[str, Any]:
    """Create a share link."""
    path = await call.at()
    await entries.stat(path)
    seconds = call.arguments.get("expires_in_seconds", 0)
    expires = (int(time.time()) + seconds) * 1000 if seconds else None
    fields = ShareFields([str(path.path)], password=call.arguments.get("password", ""), expires=expires)
    entry = await administration.create(call.caller, "", "", fields, 0)
    return make_data({"id": entry.link.id, "address": f"{call.base_url}/@s/{entry.link.id}"})


def make_plan(caller: Caller, operation: Mapping[str, Any]) -> str:
    """Return the id of a plan for an operation, which is JSON."""
    return _sign(caller, operation, int(time.time()) + PLAN_SECONDS)


async def use_plan(caller: Caller, operation: Mapping[str, Any], plan: str) -> None:
    """Use a plan. Raise BadRequest unless it is for this caller, token and operation, is valid, and was not used."""
    end = plan.partition("-")[0]
    is_well_formed = len(plan) <= MAX_PLAN_LENGTH and end.isascii() and end.isdecimal() and len(end) < 16
    expected = _sign(caller, operation, int(end)) if is_well_formed else ""
    if not is_well_formed or not hmac.compare_digest(expected.encode(), plan.encode()):
        raise BadRequest("the plan is not for this operation, or what it changes is different now: request a new plan")
    if int(end) <= time.time():
        raise BadRequest("the plan has expired: request a new plan")
    if not await asyncio.to_thread(counters.claim_once, f"plan#{plan}", PLAN_SECONDS):
        raise BadRequest("the plan was used: request a new plan")


def _sign(caller: Caller, operation: Mapping[str, Any], end: int) -> str:
    text = orjson.dumps([caller.user.id, caller.token_id, end, operation], option=orjson.OPT_SORT_KEYS)
    digest = hmac.digest(keyring().derive(Key.TOKEN, "mcp-plan"), text, "sha256")
    return f"{end}-{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"
