"""Uploads of visitors of share links: refusals, the name of the file, the receipt."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Mapping

from mangrove.core.paths import TreePath, check_name
from mangrove.core.problems import AccessDenied, BadRequest
from mangrove.drivers.base import Upload
from mangrove.identity.rights import Caller, Right
from mangrove.records import share_links, share_uploads
from mangrove.records.share_uploads import UploadReceipt
from mangrove.tree import access as tree_access
from mangrove.tree.access import PathAccess
from mangrove.tree.operations import uploads
from mangrove.tree.operations.free_names import choose_free_name
from mangrove.tree.sharing import visits
from mangrove.tree.sharing.problems import ShareLimitReached
from mangrove.tree.sharing.shared_path import PREFIX, SharedPath, is_shared

MAX_SESSION_LENGTH = 128  # characters


async def find_target(raw: str, password: str, source: str) -> PathAccess:
    """Return the access to a new file at `<id>/<name>` of a share link that takes uploads.

    The folder is the shared one, or in the mode `both` also one below. Raise ShareNotFound, ShareEnded, NotReadable,
    TooMany or AccessDenied.
    """
    path = PREFIX / raw
    if path.parent == PREFIX or path == PREFIX:
        raise BadRequest("the name of the file is missing")
    access = await visits.open_shared(path, password, Right.WRITE, source)
    share = _get_share(access)
    check_name(access.path.name)
    is_below = share.find_inner(access.path).parent != "/"
    if access.path == share.root or not share.takes_uploads or (is_below and not share.shows_content):
        raise AccessDenied
    access.parent.require(Right.WRITE)
    return access


async def open_target(caller: Caller, raw: str, password: str) -> PathAccess:
    """Return the access to a new file of the tree, or of a share link: `/@s/<id>/<name>` with its password."""
    path = TreePath(raw)
    if not is_shared(path):
        return await tree_access.at(caller, raw, password)
    return await find_target(path.below(PREFIX), password, caller.source)


async def choose_target(access: PathAccess, size: int) -> PathAccess:
    """Return the access to the file of a new upload, under another name if its name is taken.

    Raise ShareLimitReached or BadRequest for a file that the share link does not accept.
    """
    await check_limits(access, size)
    return access.parent.child(await choose_free_name(access, await access.locate("")))


def _get_share(access: PathAccess) -> SharedPath:
    assert access.share is not None
    return access.share


async def check_limits(access: PathAccess, size: int | None) -> None:
    """Raise ShareLimitReached or BadRequest for a file that the share link does not accept."""
    link = _get_share(access).link
    extension = access.path.name.rpartition(".")[2].lower() if "." in access.path.name else ""
    if link.extensions and extension not in link.extensions:
        raise ShareLimitReached(f"only files with these extensions are taken: {', '.join(link.extensions)}")
    if size is None:
        if link.max_file_size or link.max_total_size:
            raise BadRequest("the size of the file must be known: send Content-Length")
        return
    if 0 < link.max_file_size < size:
        raise ShareLimitReached(f"a file may have at most {link.max_file_size} bytes")
    if not await asyncio.to_thread(share_uploads.fits, link, size):
        raise _explain_limit(access)


def _explain_limit(access: PathAccess) -> ShareLimitReached:
    link = _get_share(access).link
    bounds = [f"{link.max_files} files"] * bool(link.max_files) + [f"{link.max_total_size} bytes"] * bool(
        link.max_total_size
    )
    return ShareLimitReached(f"this share takes at most {' and '.join(bounds)}")


async def reserve(access: PathAccess, size: int) -> None:
    """Count a file before it is stored. Raise ShareLimitReached."""
    if not await asyncio.to_thread(share_uploads.reserve, _get_share(access).link, size):
        raise _explain_limit(access)


async def release(access: PathAccess, size: int) -> None:
    """Undo the count of a file that was not stored."""
    await asyncio.to_thread(share_uploads.release, _get_share(access).link, size)


async def store(
    access: PathAccess, body: AsyncIterator[bytes], upload: Upload, hashes: Mapping[str, str], session: str
) -> UploadReceipt:
    """Store a file, under another name if its name is taken. Return its receipt.

    What can be refused is refused before the body is read. At the end of a slow body, raise ShareEnded or AccessDenied
    if the share link takes no uploads any more.
    """
    share = _get_share(access)
    await check_limits(access, upload.size)
    target = access.parent.child(await choose_free_name(access, await access.locate("")))
    await reserve(access, upload.size or 0)
    counted = _CountedBody(body)
    try:
        guarded = uploads.check_at_end(counted.read(), lambda: _require_open(target))
        await uploads.write(target, guarded, upload, overwrite=False, hashes=hashes)
    except BaseException:
        await asyncio.shield(release(access, upload.size or 0))
        raise
    receipt = UploadReceipt(target.path.name, counted.size, counted.digest.hexdigest(), int(time.time()))
    await add_receipt(share, session, receipt)
    return receipt


async def _require_open(access: PathAccess) -> None:
    """Raise ShareEnded or AccessDenied if a share link takes no uploads any more."""
    present = await visits.find_upload(_get_share(access).link.id, access.path, access.caller.source)
    present.parent.require(Right.WRITE)


async def add_receipt(share: SharedPath, session: str, receipt: UploadReceipt) -> None:
    """Keep a receipt for the session of a sender, if there is one."""
    if session:
        await asyncio.to_thread(share_uploads.add_receipt, share.link, session[:MAX_SESSION_LENGTH], receipt)


async def keep_receipt(id: str, session: str, receipt: UploadReceipt) -> None:
    """Keep a receipt for the session of a sender through the share link of an id, if both exist."""
    link = await asyncio.to_thread(share_links.find, id) if session else None
    if link is not None:
        await asyncio.to_thread(share_uploads.add_receipt, link, session[:MAX_SESSION_LENGTH], receipt)


async def list_sent(share: SharedPath, session: str) -> list[UploadReceipt]:
    """Return the receipts of a session."""
    if not session:
        return []
    return await asyncio.to_thread(share_uploads.list_receipts, share.link, session[:MAX_SESSION_LENGTH])


class _CountedBody:
    """A body that counts its bytes and computes their SHA-256."""

    def __init__(self, body: AsyncIterator[bytes]) -> None:
        self._body = body
        self.size = 0
        self.digest = hashlib.sha256()

    async def read(self) -> AsyncIterator[bytes]:
        """Yield the body."""
        async for block in self._body:
            self.digest.update(block)
            self.size += len(block)
            yield block


def format_line(receipt: UploadReceipt) -> str:
    """Return a receipt as a line of text."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(receipt.time))
    return f"{receipt.name} {receipt.size} bytes sha256:{receipt.sha256} {moment}\n"
