"""Archives of shared files that tasks make for visitors: their number, and the access of each step."""

from __future__ import annotations

import asyncio

from mangrove.core.http import find_client
from mangrove.core.paths import TreePath
from mangrove.core.problems import TooMany
from mangrove.identity.rights import Right
from mangrove.records.store import counters
from mangrove.tree.access import PathAccess
from mangrove.tree.sharing import visits
from mangrove.tree.sharing.downloads import require_content
from mangrove.tree.sharing.problems import ShareNotFound

MAX_ARCHIVES_PER_SENDER = 5  # of one address, through one share link, within ARCHIVE_SECONDS
MAX_ARCHIVES_PER_SHARE = 20
ARCHIVE_SECONDS = 3600
RETRY_SECONDS = 600


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
