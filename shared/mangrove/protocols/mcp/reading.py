"""The tools that read."""

from __future__ import annotations

import asyncio
import base64
from codecs import getincrementaldecoder
from itertools import islice
from typing import Any

from mangrove.core.http import guess_mime
from mangrove.core.problems import BadRequest, NotAFile
from mangrove.protocols.mcp.results import DATA_NOTICE, ToolCall, format_entry, make_data, make_uri
from mangrove.search import find
from mangrove.search.query import Filters
from mangrove.search.words import parse
from mangrove.tasks.core import queue
from mangrove.tasks.core.model import State
from mangrove.tasks.core.registry import KINDS
from mangrove.tasks.index import indexing
from mangrove.tree.listing import entries

MAX_FILE_BYTES = 1 << 20  # of one call that reads or writes
MAX_ROWS_PER_CALL = 1000
DEFAULT_ROWS_PER_CALL = 200
MAX_HITS_PER_CALL = 200
MAX_TASKS_PER_KIND = 100
MAX_CONTINUATION_BYTES = 3  # of a character in UTF-8


async def list_folder(call: ToolCall) -> dict[str, Any]:
    """Return a part of the entries of a folder."""
    folder = await call.at()
    await entries.require_folder(folder)
    start = call.arguments.get("start", 0)
    count = min(call.arguments.get("count", DEFAULT_ROWS_PER_CALL), MAX_ROWS_PER_CALL)
    rows: list[dict[str, Any]] = []
    number, has_more = 0, False
    async for entry in entries.iterate(folder):
        if has_more := len(rows) == count:
            break
        if number >= start:
            rows.append(format_entry(entry))
        number += 1
    return make_data({"path": call.show(folder.path), "entries": rows, "has_more": has_more})


async def search(call: ToolCall) -> dict[str, Any]:
    """Return names that match."""
    folder = await call.at()
    count = min(call.arguments.get("count", MAX_HITS_PER_CALL), MAX_HITS_PER_CALL)
    filters = Filters(parse(call.arguments["keywords"]))
    result = await find.find(folder, filters, call.arguments.get("start", 0), count)
    await indexing.request_build(result.missing)
    await indexing.request_update(result.behind)
    rows = [
        {"path": call.show(hit.parent / hit.name), "is_folder": hit.is_dir, "size": hit.size} for hit in result.hits
    ]
    return make_data({"hits": rows, "total": result.total, "is_partial": result.is_partial})


async def stat(call: ToolCall) -> dict[str, Any]:
    """Return an entry."""
    path = await call.at()
    return make_data({"path": call.show(path.path)} | format_entry(await entries.stat(path)))


async def read_file(call: ToolCall) -> dict[str, Any]:
    """Return bytes of a file as an embedded resource."""
    path = await call.at()
    entry = await entries.stat(path)
    if entry.is_dir:
        raise NotAFile
    offset, length = call.arguments.get("offset", 0), call.arguments.get("length", MAX_FILE_BYTES)
    if length > MAX_FILE_BYTES:
        raise BadRequest(f"at most {MAX_FILE_BYTES} bytes can be read by one call")
    if entry.size is not None:
        length = max(min(length, entry.size - offset), 0)
    content = await _read(call, offset, length) if length else b""
    resource: dict[str, Any] = {"uri": make_uri(path.path.below(path.base)), "mimeType": guess_mime(path.path.name)}
    if call.arguments.get("encoding", "text") == "base64":
        resource["blob"] = base64.b64encode(content).decode()
    else:
        resource["text"] = _decode(content, not offset)
    facts = {"offset": offset, "length": len(content), "size": entry.size}
    notice = f"{DATA_NOTICE} Bytes {offset} to {offset + len(content)} of {entry.size}."
    content_blocks = [{"type": "text", "text": notice}, {"type": "resource", "resource": resource}]
    return {"content": content_blocks, "structuredContent": facts}


async def _read(call: ToolCall, offset: int, length: int) -> bytes:
    storage_path = await (await call.at()).require_read().locate("")
    received = bytearray()
    blocks: Any = await storage_path.driver.read(storage_path.path, offset, length)
    async for block in blocks:
        received += block
        if len(received) >= length:
            break
    await blocks.aclose()
    return bytes(received[:length])


def _decode(content: bytes, is_start: bool) -> str:
    """Decode UTF-8 text. Leave out a character that the end of the range splits. Raise BadRequest for other bytes."""
    cut = 0
    while not is_start and cut < min(len(content), MAX_CONTINUATION_BYTES) and content[cut] & 0xC0 == 0x80:
        cut += 1
    try:
        return getincrementaldecoder("utf-8")().decode(content[cut:])
    except UnicodeDecodeError:
        raise BadRequest("the file is not UTF-8 text: read it with the encoding base64") from None


async def list_tasks(call: ToolCall) -> dict[str, Any]:
    """Return tasks of all kinds."""
    return make_data({"tasks": await asyncio.to_thread(_list_tasks, call, bool(call.arguments.get("done")))})


def _list_tasks(call: ToolCall, done: bool) -> list[dict[str, Any]]:
    rows = []
    for kind in (name for name, kind in KINDS.items() if kind.is_listed):
        for view in islice(queue.list_views(kind, done, call.caller), MAX_TASKS_PER_KIND):
            state = State(view.state).name.lower()
            rows.append(
                {"kind": kind, "id": view.id, "name": view.name, "state": state, "progress": view.progress,
                 "error": view.error}
            )  # fmt: skip
    return rows
