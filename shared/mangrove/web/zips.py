"""Links to selections and folders as ZIP files, and the files themselves, which are made while they are sent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from mangrove import configuration
from mangrove.configuration import users
from mangrove.core.limits import limits
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import NotAFolder, TooLarge, Unauthorized
from mangrove.identity.rights import Right
from mangrove.tasks.compress.selections import Selection, load_selection, store_selection
from mangrove.tasks.core import queue
from mangrove.tree import access as tree_access
from mangrove.tree import callers
from mangrove.tree.access import PathAccess
from mangrove.tree.listing import entries
from mangrove.tree.operations import links
from mangrove.tree.operations.packing import find_root
from mangrove.tree.operations.zip_streams import ZipPlan, ZipStream, make_plan
from mangrove.web.serving import serve_zip_bytes

LINK_SECONDS = 3600
ROUTE = "/zip"
ROOT_NAME = "files"  # of the archive of a root


class PackedSelection(NamedTuple):
    """The entries of a folder that an archive takes."""

    root: PathAccess
    names: Sequence[str]
    """All entries of the folder if there are none."""

    @classmethod
    def make(cls, folder: PathAccess, names: Sequence[str]) -> PackedSelection:
        """Return the selection of some entries of a folder, or the folder itself if there are no `names`."""
        return cls(folder, names) if names else cls(*find_root(folder))

    @property
    def archive_name(self) -> str:
        """The name of the archive: that of the only entry, else that of the folder."""
        name = self.names[0] if len(self.names) == 1 else self.root.path.name
        return f"{name or ROOT_NAME}.zip"


FindSelection = Callable[[], Awaitable[PackedSelection]]
"""Returns the selection as its user may read it now. A Problem ends the archive."""


async def make_link(folder: PathAccess, names: Sequence[str], base_url: str) -> str:
    """Return the address of the archive of some entries of a folder, or of the folder if there are no `names`.

    Raise what the archive would be refused for: EntryNotFound, NotReadable, TooLarge.
    """
    if not names:
        folder.require_read()
        if not (await entries.stat(folder)).is_dir:
            raise NotAFolder
    selection = PackedSelection.make(folder, names)
    plan = await make_plan(selection.root, selection.names, strict=True)
    _check_length(plan)
    id = ""
    if names or folder.password:
        id = queue.make_id()
        await store_selection(id, Selection.make(list(names), folder.password))
    return format_link(folder, id, base_url, LINK_SECONDS)


def _check_length(plan: ZipPlan) -> None:
    limit = platform().max_file_bytes
    if limit is not None and (plan.length is None or plan.length > limit):
        raise TooLarge("this is too large to be packed in an answer")


def format_link(folder: PathAccess, id: str, base_url: str, seconds: int) -> str:
    """Return the address that is good for `seconds`; `id` is that of the stored selection, "" for the whole folder."""
    signature = links.sign_selection(folder.settings, folder.caller.user.id, id, folder.path, seconds)
    return links.make_file_url(base_url, ROUTE, folder.path, f"id={id}&sign={signature}" if id else f"sign={signature}")


async def serve_link(request: Request, raw: str, id: str, signature: str, source: str) -> Response:
    """Answer with the archive that a link stands for. Its user's rights at this moment count, for each entry."""
    path = TreePath(raw)
    owner = links.verify_selection((await configuration.get()).settings, id, path, signature)
    selection = await load_selection(id) if id else Selection()

    async def find_selection() -> PackedSelection:
        await configuration.get()
        user = await users.find_by_id(owner)
        if user is None or user.disabled or not path.within(TreePath(user.base_path)):
            raise Unauthorized("sign revoked")
        caller = callers.make_caller(user, Right.READ, source)
        folder = await tree_access.at(caller, path, selection.read_password(), confined=False)
        return PackedSelection.make(folder, selection.names)

    return await serve_selection(request, find_selection, source)


async def serve_selection(request: Request, find_selection: FindSelection, caller: str) -> Response:
    """Answer with the archive of a selection. `caller` is counted by the limit of archive members that are sent."""
    stream = _stream(find_selection, caller)
    plan: Any = await anext(stream)
    name: Any = await anext(stream)
    return await serve_zip_bytes(request, stream, name, plan.length)


async def _stream(find_selection: FindSelection, caller: str) -> AsyncGenerator[Any, None]:
    """Yield the plan of the archive and its name, then its bytes."""
    selection = await find_selection()

    async def authorize() -> PathAccess:
        return (await find_selection()).root

    async with limits().archive_members.hold(caller):
        plan = await make_plan(selection.root, selection.names)
        yield plan
        yield selection.archive_name
        async with aclosing(ZipStream(plan, authorize).stream()) as blocks:
            async for block in blocks:
                yield block
