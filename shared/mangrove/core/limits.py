"""The limits of concurrency of the service, each over all processes of the machine unless it says otherwise."""

from __future__ import annotations

import threading

from mangrove.core import runtime
from mangrove.core.concurrency import PASSWORD_THREADS, KeyedLock
from mangrove.core.limiter import ConcurrencyLimiter
from mangrove.core.shared_memory import Counts, Region

CHUNK_BYTES = 256 << 20  # of chunks of uploads in memory
CHUNK_BYTES_PER_USER = 128 << 20
MIN_CHUNK_BYTES = 16 << 20  # as which a smaller chunk counts: 16 at once, 8 of a user
CHUNK_WAIT_SECONDS = 10.0
WHOLE_BODY_BYTES = 128 << 20  # of files that a storage takes in one piece, in memory
WHOLE_BODY_WAIT_SECONDS = 60.0
SEARCH_CONCURRENCY = 4
SEARCHES_PER_CALLER = 1
SEARCH_WAIT_SECONDS = 20.0
THUMBNAIL_CONCURRENCY = 16
THUMBNAILS_PER_CALLER = 4
THUMBNAIL_WAIT_SECONDS = 30.0
LARGE_REQUEST_CONCURRENCY = 32
LARGE_REQUESTS_PER_CALLER = 4
LARGE_REQUEST_WAIT_SECONDS = 30.0
ARCHIVE_LOOKUP_CONCURRENCY = 8  # each may need a quarter of a GiB, and a core
ARCHIVE_LOOKUPS_PER_CALLER = 2
ARCHIVE_LOOKUP_WAIT_SECONDS = 60.0
ARCHIVE_MEMBER_CONCURRENCY = 16  # files of archives that are sent: a slow reader holds its memory for as long
ARCHIVE_MEMBERS_PER_CALLER = 4
ARCHIVE_MEMBER_WAIT_SECONDS = 10.0
SIGN_IN_CONCURRENCY = PASSWORD_THREADS  # of a process
MAX_WAITING_SIGN_INS = 256  # of a process; at some 30 ms each the last one waits a few seconds
SIGN_IN_RETRY_SECONDS = 5.0  # after which a queue that was full has been worked off
SHARED_LIMITS = 8  # which have equal parts of the shared memory


class Limits:
    """The limiters of this process, and its locks by key."""

    def __init__(self) -> None:
        self.chunk_bytes = ConcurrencyLimiter(
            "too many chunks are received at once, try again later",
            CHUNK_BYTES, CHUNK_BYTES_PER_USER, wait_seconds=CHUNK_WAIT_SECONDS, counts=_share(0),
        )  # fmt: skip
        self.whole_body_bytes = ConcurrencyLimiter(
            "too many uploads are held in memory, try again later",
            WHOLE_BODY_BYTES, WHOLE_BODY_BYTES, wait_seconds=WHOLE_BODY_WAIT_SECONDS, counts=_share(1),
        )  # fmt: skip
        self.searches = ConcurrencyLimiter(
            "too many searches at once, try again later",
            SEARCH_CONCURRENCY, SEARCHES_PER_CALLER, wait_seconds=SEARCH_WAIT_SECONDS, counts=_share(2),
        )  # fmt: skip
        self.thumbnails = ConcurrencyLimiter(
            "too many thumbnails are made at once, try again later",
            THUMBNAIL_CONCURRENCY, THUMBNAILS_PER_CALLER, wait_seconds=THUMBNAIL_WAIT_SECONDS, counts=_share(3),
        )  # fmt: skip
        self.large_requests = ConcurrencyLimiter(
            "too many large requests are handled at once, try again later",
            LARGE_REQUEST_CONCURRENCY, LARGE_REQUESTS_PER_CALLER,
            wait_seconds=LARGE_REQUEST_WAIT_SECONDS, counts=_share(4),
        )  # fmt: skip
        self.archive_lookups = ConcurrencyLimiter(
            "too many archives are looked into at once, try again later",
            ARCHIVE_LOOKUP_CONCURRENCY, ARCHIVE_LOOKUPS_PER_CALLER,
            wait_seconds=ARCHIVE_LOOKUP_WAIT_SECONDS, counts=_share(5),
        )  # fmt: skip
        self.archive_members = ConcurrencyLimiter(
            "too many files of archives are sent at once, try again later",
            ARCHIVE_MEMBER_CONCURRENCY, ARCHIVE_MEMBERS_PER_CALLER,
            wait_seconds=ARCHIVE_MEMBER_WAIT_SECONDS, counts=_share(6),
        )  # fmt: skip
        self.sign_ins = ConcurrencyLimiter(
            "too many sign-ins at the same time, try again later",
            SIGN_IN_CONCURRENCY, SIGN_IN_CONCURRENCY,
            max_waiting=MAX_WAITING_SIGN_INS, retry_seconds=SIGN_IN_RETRY_SECONDS,
        )  # fmt: skip
        self.task_requests = KeyedLock()  # of one owner, one request at a time enqueues many tasks
        self.configuration_writes = threading.Lock()  # which all raise one number
        self.names = KeyedLock()  # that this process changes: one of those that wait asks the records


def _share(number: int) -> Counts:
    return Counts(Region.LIMITS, number, SHARED_LIMITS)


def limits() -> Limits:
    """Return the limits of this process."""
    return runtime.get(Limits)
