"""Links to selections and folders as ZIP files."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from mangrove.core.platform import platform
from mangrove.core.problems import NotAFolder, TooLarge
from mangrove.records.tasks.model import Task
from mangrove.tasks import submit
from mangrove.tasks.compress.selections import FolderSelection, store_selection
from mangrove.tasks.core import queue, staging
from mangrove.tree.access import PathAccess
from mangrove.tree.listing import entries
from mangrove.tree.operations import links
from mangrove.tree.operations.packing import ListedTooSlowly
from mangrove.tree.operations.zip_streams import make_plan
from mangrove.tree.sharing.downloads import count_archive, require_content
from mangrove.web.zips import PackedSelection

LINK_SECONDS = 3600
TASK_LINK_SECONDS = 24 * 3600  # of an archive that a task makes first
ROUTE = "/zip"
SHARED_ROUTE = "/sd"


class ZipAddress(NamedTuple):
    """The address of an archive."""

    url: str
    task: Task | None = None
    """The task that makes the archive first, if it does not pass through a function."""


async def make_link(folder: PathAccess, names: Sequence[str], base_url: str) -> ZipAddress:
    """Return the address of the archive of some entries of a folder, or of the folder if there are no `names`.

    Raise what the archive would be refused for: EntryNotFound, NotReadable, TooLarge.
    """
    if not names:
        folder.require_read()
        if not (await entries.stat(folder)).is_dir:
            raise NotAFolder
    selection = PackedSelection.make(folder, names)
    if not await _fits(selection):
        return await _make_by_task(folder, names, selection.archive_name, base_url)
    id = ""
    if names or folder.password:
        id = queue.make_id()
        await store_selection(id, FolderSelection.make(list(names), folder.password))
    return ZipAddress(_format_link(folder, id, base_url, LINK_SECONDS))


async def make_shared_link(folder: PathAccess, names: Sequence[str], base_url: str) -> ZipAddress:
    """Return the address of the archive of some entries of a shared folder, or of all that is in it, for a visitor.

    Raise as `make_link`, and TooMany if too many archives do not pass through a function.
    """
    share = require_content(folder).share
    assert share is not None
    selection = await PackedSelection.make_shared(folder, names)
    inner = share.find_inner(folder.path)
    if await _fits(selection, strict=bool(names)):
        query = urlencode([("zip", ""), *(("names", name) for name in names)])
        return ZipAddress(share.make_inner_url(base_url, SHARED_ROUTE, inner, query))
    await count_archive(folder)
    stored = FolderSelection(archive=selection.archive_name, share=share.link.number)
    task = await _enqueue(folder, names, stored)
    return ZipAddress(share.make_inner_url(base_url, SHARED_ROUTE, inner, f"zip={task.id}"), task)


async def _fits(selection: PackedSelection, *, strict: bool = True) -> bool:
    """True if the archive can be sent in an answer. `strict`: raise the problem of a selected entry."""
    limit = platform().max_file_bytes
    try:
        plan = await make_plan(selection.root, selection.names, strict=strict)
    except ListedTooSlowly:
        if limit is None:
            raise
        return False
    return limit is None or (plan.length is not None and plan.length <= limit)


async def _make_by_task(folder: PathAccess, names: Sequence[str], name: str, base_url: str) -> ZipAddress:
    if folder.caller.is_guest:
        raise TooLarge("this is too large to be packed in an answer: sign in, so that a task can do it")
    task = await _enqueue(folder, names, FolderSelection.make(list(names), folder.password, name))
    return ZipAddress(_format_link(folder, task.id, base_url, TASK_LINK_SECONDS), task)


async def _enqueue(folder: PathAccess, names: Sequence[str], selection: FolderSelection) -> Task:
    """Store a selection, and enqueue the task that packs it."""
    id = queue.make_id()
    await store_selection(id, selection)
    try:
        return await submit.pack_into_staging(folder, names, selection.archive, id)
    except BaseException:
        await asyncio.shield(staging.clear(id))
        raise


def _format_link(folder: PathAccess, id: str, base_url: str, seconds: int) -> str:
    signature = links.sign_selection(folder.tree.settings, folder.caller.user.id, id, folder.path, seconds)
    query = f"id={id}&sign={signature}" if id else f"sign={signature}"
    return links.make_file_url(base_url, ROUTE, folder.path, query)
