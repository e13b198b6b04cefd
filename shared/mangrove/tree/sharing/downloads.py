"""Downloads of shared files: the access of the visitor, the source of the bytes, and the archives that tasks make."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from mangrove.core.http import find_client
from mangrove.core.paths import TreePath
from mangrove.core.problems import AccessDenied, TooMany
from mangrove.identity.rights import Right
from mangrove.records.store import counters
from mangrove.tree.access import PathAccess
from mangrove.tree.operations.archives import require_archive_rights
from mangrove.tree.operations.downloads import Download
from mangrove.tree.sharing import visits
from mangrove.tree.sharing.problems import ShareNotFound
from mangrove.tree.sharing.shared_path import PREFIX

MAX_ARCHIVES_PER_SENDER = 5  # of one address, through one share link, within ARCHIVE_SECONDS
MAX_ARCHIVES_PER_SHARE = 20
ARCHIVE_SECONDS = 3600
RETRY_SECONDS = 600


@dataclass(frozen=True, slots=True)
class SharedDownload:
    """A file of a share link that its visitor may download."""

    file: Download
    access: PathAccess

    @property
    def must_proxy(self) -> bool:
        """True if the bytes pass through the service: by the setting, or because the storage has no address."""
        return self.file.settings.share_force_proxy or self.file.must_proxy

    def require_preview(self) -> None:
        """Raise AccessDenied unless the setting allows previews for visitors."""
        if not self.file.settings.share_preview:
            raise AccessDenied("sharing previews are not allowed")


async def authorize(raw: str, password: str, source: str, right: Right = Right.READ) -> SharedDownload:
    """Return the file at `<id>[/path]` of a share link, on a route that declares `right`.

    Raise the problems of `visits.open_shared`. The caller hides the paths in messages with `visits.hide_paths`.
    """
    access = await open_shared(raw, password, source, right)
    if right is Right.READ_ARCHIVES:
        require_archive_rights(access)
    share = access.share
    assert share is not None
    name = share.find_inner(access.path).name or share.name
    return SharedDownload(Download(TreePath("/") / name, await access.locate(), access.tree.settings), access)


async def open_shared(raw: str, password: str, source: str, right: Right = Right.READ) -> PathAccess:
    """Return the access of a visitor to `<id>[/path]` of a share link whose content visitors may read.

    The root of a share of several files and folders is not in the tree: its `share.roots` are the accesses to them.
    Raise ShareNotFound, ShareEnded, NotReadable, TooMany, EntryNotFound or AccessDenied.
    """
    return require_content(await visits.open_shared(PREFIX / raw, password, right, source))


def require_content(access: PathAccess) -> PathAccess:
    """Return the access of a visitor. Raise AccessDenied or NotReadable unless visitors may read there."""
    assert access.share is not None
    if not access.share.shows_content:
        raise AccessDenied
    return access.require_read()


async def count_archive(access: PathAccess) -> None:
    """Count an archive before its task is enqueued. Raise TooMany above a bound."""
    assert access.share is not None
    await asyncio.to_thread(_count_archive, access.share.link.number, find_client(access.caller.source))


def _count_archive(number: int, client: str) -> None:
    if not (
        _claim(f"share archive#{number}#{client}", MAX_ARCHIVES_PER_SENDER)
        and _claim(f"share archive#{number}", MAX_ARCHIVES_PER_SHARE)
    ):
        raise TooMany(
            "too many archives have been made through this share link, try again later", retry_after=RETRY_SECONDS
        )


def _claim(key: str, limit: int) -> bool:
    """True if fewer than `limit` claims of a key have been made within ARCHIVE_SECONDS."""
    return any(counters.claim_once(f"{key}#{slot}", ARCHIVE_SECONDS) for slot in range(limit))


async def reopen(path: TreePath, number: int) -> PathAccess:
    """Return the access of a visitor to `/@s/<id>[/…]` of the share link `number`, whose password was checked before.

    Raise ShareNotFound, ShareEnded, EntryNotFound or AccessDenied if the visitor has no access any more.
    """
    access = await visits.open_shared(path, None, Right.READ, "", is_visit=False)
    assert access.share is not None
    if access.share.link.number != number:
        raise ShareNotFound  # the id belongs to another share link now
    return require_content(access)
