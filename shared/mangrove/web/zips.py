"""Selections and folders as ZIP files, which are made while they are sent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mangrove import configuration
from mangrove.configuration import users
from mangrove.core.http import find_client
from mangrove.core.limits import limits
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import EntryNotFound, NotAFolder, ResourceNotFound, Unauthorized
from mangrove.identity.rights import Right
from mangrove.records.users import User
from mangrove.tasks.compress.selections import FolderSelection, load_selection
from mangrove.tasks.core import staging
from mangrove.tree import access as tree_access
from mangrove.tree import callers
from mangrove.tree.access import PathAccess
from mangrove.tree.listing import entries
from mangrove.tree.operations import links
from mangrove.tree.operations.links import make_file_url
from mangrove.tree.operations.packing import ListedTooSlowly, find_root
from mangrove.tree.operations.zip_streams import ZipStream, make_plan
from mangrove.tree.sharing.downloads import open_shared
from mangrove.tree.sharing.shared_path import PREFIX
from mangrove.web.address import find_site_address
from mangrove.web.downloads import NO_STORE
from mangrove.web.failures import make_referral
from mangrove.web.serving import AnswerTooLarge, serve_zip_bytes

ROOT_NAME = "files"  # of the archive of a root
NEEDS_TASK = (
    'this ZIP file is too large for one answer: open {} in a browser and choose "Download all", or request the file '
    "with POST /api/fs/zip"
)


class ArchiveNotReady(ResourceNotFound):
    """The task that makes the archive has not ended."""

    text = "the archive is being made, try again later"
    retry_after = 5


class PackedSelection(NamedTuple):
    """The entries of a folder that an archive takes."""

    root: PathAccess
    names: Sequence[str]
    """All entries of the folder if there are none."""
    title: str = ""
    """The name of the archive without its extension; "" for the name of the only entry or the folder."""

    @classmethod
    def make(cls, folder: PathAccess, names: Sequence[str]) -> PackedSelection:
        """Return the selection of some entries of a folder, or the folder itself if there are no `names`."""
        return cls(folder, names) if names else cls(*find_root(folder))

    @classmethod
    async def make_shared(cls, folder: PathAccess, names: Sequence[str]) -> PackedSelection:
        """Return the selection of some entries of a shared folder, or all that is in it if there are no `names`.

        Raise NotAFolder.
        """
        share = folder.share
        assert share is not None
        if not share.roots and not (await entries.stat(folder)).is_dir:
            raise NotAFolder
        title = share.link.id if share.roots else share.find_inner(folder.path).name or share.name
        return cls(folder, names or list(share.roots), "" if len(names) == 1 else title)

    @property
    def archive_name(self) -> str:
        """The name of the archive: that of the only entry, else that of the folder."""
        name = self.title or (self.names[0] if len(self.names) == 1 else self.root.path.name)
        return f"{name or ROOT_NAME}.zip"


FindSelection = Callable[[], Awaitable[PackedSelection]]
"""Returns the selection as its user may read it now. A Problem ends the archive."""


async def serve_link(request: Request, raw: str, id: str, signature: str, source: str) -> Response:
    """Answer with the archive that a link stands for. Its user's rights at this moment count, for each entry."""
    path = TreePath(raw)
    owner = links.verify_selection((await configuration.get()).settings, id, path, signature)
    selection = await load_selection(id) if id else FolderSelection()
    if selection.archive:
        await _find_user(owner, path)
        return RedirectResponse(await _find_staged_archive(id, selection.archive), 302, headers=NO_STORE)

    async def find_selection() -> PackedSelection:
        caller = callers.make_caller(await _find_user(owner, path), Right.READ, source)
        folder = await tree_access.at(caller, path, selection.read_password(), confined=False)
        return PackedSelection.make(folder, selection.names)

    return await serve_selection(request, find_selection, source)


async def serve_shared(request: Request, raw: str, password: str, source: str, names: Sequence[str]) -> Response:
    """Answer with the archive of a folder of a share link, `<id>[/path]`, or of all that it shares.

    `names`: the entries of the folder that the archive takes, empty for all. An archive that only a task can make is
    refused with the address of the page that requests one: a GET enqueues no task.
    """

    async def find_selection() -> PackedSelection:
        await configuration.get()
        return await PackedSelection.make_shared(await open_shared(raw, password, source), names)

    try:
        return await serve_selection(request, find_selection, find_client(source))
    except (AnswerTooLarge, ListedTooSlowly):
        if platform().max_file_bytes is None:
            raise
        page_url = make_file_url(await find_site_address(request), "", PREFIX / raw)
        return make_referral(request, AnswerTooLarge(NEEDS_TASK.format(page_url)), page_url)


async def serve_shared_archive(raw: str, password: str, source: str, id: str) -> Response:
    """Redirect to the archive that a task has made for a visitor of a share link. Raise ArchiveNotReady before it has.

    Raise ResourceNotFound if the task has failed, or was not for this share link.
    """
    await configuration.get()
    access = await open_shared(raw, password, source)
    selection = await load_selection(id)
    if access.share is None or selection.share != access.share.link.number:
        raise ResourceNotFound("the link has ended")
    return RedirectResponse(await _find_staged_archive(id, selection.archive), 302, headers=NO_STORE)


async def _find_user(id: int, path: TreePath) -> User:
    """Return the user whom a link was made for. Raise Unauthorized if the user has no access to the path any more."""
    await configuration.get()
    user = await users.find_by_id(id)
    if user is None or user.disabled or not path.within(TreePath(user.base_path)):
        raise Unauthorized("sign revoked")
    return user


async def _find_staged_archive(id: str, name: str) -> str:
    """Return the address of the archive that a task has made. Raise ArchiveNotReady before it has."""
    storage, path = await staging.driver(), staging.get_path(id, name)
    try:
        await storage.stat(path)
    except EntryNotFound:
        raise ArchiveNotReady from None
    return (await storage.link(path)).url


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
