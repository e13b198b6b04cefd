"""Folders as resources: the root and its folders are listed, any folder can be read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from mangrove.core.paths import TreePath
from mangrove.drivers.base import ROOT
from mangrove.identity.rights import Caller, Right
from mangrove.protocols.mcp.results import DATA_NOTICE, SCHEME, format_entry, make_uri, parse_uri
from mangrove.tree import access
from mangrove.tree.listing import entries

MAX_LISTED_RESOURCES = 1000
MAX_ROWS_PER_RESOURCE = 1000
JSON = "application/json"


async def list_resources(caller: Caller, base_url: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the root and the folders in it."""
    root = await access.at(replace(caller, declared_right=Right.READ), "/")
    paths = [ROOT]
    async for entry in entries.iterate(root):
        if entry.is_dir:
            paths.append(ROOT / entry.name)
        if len(paths) == MAX_LISTED_RESOURCES:
            break
    rows = [{"uri": make_uri(path), "name": path.name or "/", "mimeType": JSON} for path in paths]
    return {"resources": rows, "ttlMs": 0, "cacheScope": "private"}


async def list_templates(caller: Caller, base_url: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the template of the addresses of folders."""
    template = {"uriTemplate": f"{SCHEME}:///{{+path}}", "name": "folder", "mimeType": JSON}
    description = "The entries of a folder, at most 1,000."
    return {"resourceTemplates": [template | {"description": description}], "ttlMs": 0, "cacheScope": "private"}


async def read(caller: Caller, base_url: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of a folder as JSON."""
    path = TreePath(parse_uri(parameters.get("uri")))
    folder = await access.at(replace(caller, declared_right=Right.READ), path)
    await entries.require_folder(folder)
    rows: list[dict[str, Any]] = []
    has_more = False
    async for entry in entries.iterate(folder):
        if has_more := len(rows) == MAX_ROWS_PER_RESOURCE:
            break
        rows.append(format_entry(entry))
    text = orjson.dumps({"notice": DATA_NOTICE, "path": path, "entries": rows, "has_more": has_more}).decode()
    contents = [{"uri": make_uri(path), "mimeType": JSON, "text": text}]
    return {"contents": contents, "ttlMs": 0, "cacheScope": "private"}
