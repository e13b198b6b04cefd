"""Uploads through share links on the real engine: their number, bytes and receipts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from mangrove.records import share_links, share_uploads
from mangrove.records.share_uploads import MAX_RECEIPTS_PER_SESSION, UploadReceipt

pytestmark = pytest.mark.usefixtures("records")


def test_parallel_uploads_are_never_more_than_allowed() -> None:
    link = share_links.create("a", owner=7, files=["/a"], mode="drop", max_files=5, max_total_size=40)
    with ThreadPoolExecutor(8) as pool:
        reserved = list(pool.map(lambda _: share_uploads.reserve(link, 10), range(20)))
    assert sum(reserved) == 4 and share_uploads.count_uploads(link) == (4, 40)
    share_uploads.release(link, 10)
    assert share_uploads.fits(link, 10) and not share_uploads.fits(link, 11)
    share_links.delete("a")
    assert share_uploads.count_uploads(link) == (0, 0)


def test_receipts_belong_to_their_session_and_are_bounded() -> None:
    link = share_links.create("a", owner=7, files=["/a"], mode="drop")
    for number in range(MAX_RECEIPTS_PER_SESSION + 1):
        share_uploads.add_receipt(link, "session", UploadReceipt(f"{number}", number, "ab", 1))
    receipts = share_uploads.list_receipts(link, "session")
    assert [receipt.size for receipt in receipts] == list(range(MAX_RECEIPTS_PER_SESSION))
    assert share_uploads.list_receipts(link, "another") == []
