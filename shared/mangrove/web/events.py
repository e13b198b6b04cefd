"""Server-sent events of one client: changes of a folder, progress of its tasks, states of storages.

Nothing is queued for a slow client: after each event that it took, its view is compared with the present state. The
rights of the client are evaluated again before each event, and the stream ends with them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mangrove.core.limits import limits
from mangrove.core.platform import platform
from mangrove.core.problems import FeatureNotAvailable, Problem
from mangrove.core.shared_memory import Topic, change_counters
from mangrove.identity.rights import Caller
from mangrove.records import storages
from mangrove.tasks.core import queue
from mangrove.tasks.core.registry import KINDS
from mangrove.tree.access import PathAccess
from mangrove.tree.listing.folder import Stamp
from mangrove.web import flavours
from mangrove.web.flavours import ApiFlavour

POLL_INTERVAL_SECONDS = 0.1  # between two comparisons of counters in memory
TASK_INTERVAL_SECONDS = 0.5  # between two looks at the progress of tasks
HEARTBEAT_INTERVAL_SECONDS = 15.0
MAX_STREAM_SECONDS = 3600.0  # then the client connects again
MAX_TASKS_PER_KIND = 100  # unfinished ones whose progress is reported
RECONNECT_MILLISECONDS = 3000
ENDS_WITH_SERVER = "mangrove.ends-with-server"
"""The key in a scope's `extensions` of a function that ends the answer, which has no end of its own."""
Evaluate = Callable[[], Awaitable[PathAccess]]
"""A function that returns the folder with the present rights of the caller. It raises Problem if they have ended."""
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx passes each event on
    (b"x-content-type-options", b"nosniff"),
]
HEARTBEAT = b": heartbeat\n\n"
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events, without an end"}
}


def require_support() -> None:
    """Raise FeatureNotAvailable if this process does not learn of changes by others at once."""
    if not platform().reports_changes:
        raise FeatureNotAvailable("events: not available here, poll instead")


class Event(NamedTuple):
    """An event of a stream."""

    name: str
    data: Any

    def encode(self) -> bytes:
        """Return the event in the format of `text/event-stream`."""
        return b"event: %b\ndata: %b\n\n" % (self.name.encode(), orjson.dumps(self.data))


class FolderView:
    """The state of a folder of which the client knows."""

    def __init__(self, folder: PathAccess) -> None:
        keys = {
            key
            for mount in folder.tree.table.find_mounts(folder.path)
            for key in folder.tree.table.follow_redirects(mount.storage.id, folder.path.below(mount.path))
        }
        self._stamps = [Stamp(key) for key in keys]
        self._shown = keys, folder.find_virtual_folders().keys()

    def has_changed(self) -> bool:
        """True if entries of the folder changed since."""
        return not all(stamp.is_current() for stamp in self._stamps)

    def differs(self, later: FolderView) -> bool:
        """True if entries changed, or `later` shows other storages."""
        return self.has_changed() or self._shown != later._shown


class KnownTasks:
    """The unfinished tasks of which the client knows, by kind and id."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Any]] = {kind.name: {} for kind in KINDS.values() if kind.is_listed}
        self._count = -1
        self._read_at = 0.0

    def is_due(self) -> bool:
        """True if tasks were created or ended, or the progress of unfinished ones may differ."""
        if change_counters().read(Topic.TASK_LISTS) != self._count:
            return True
        return any(self._rows.values()) and time.monotonic() - self._read_at > TASK_INTERVAL_SECONDS

    def read(self, caller: Caller) -> list[Event]:
        """Return what differs from the last call, in a thread."""
        count = change_counters().read(Topic.TASK_LISTS)
        kinds = self._rows if count != self._count else [kind for kind, rows in self._rows.items() if rows]
        self._count, self._read_at = count, time.monotonic()
        return [event for kind in list(kinds) for event in self._read_kind(kind, caller)]

    def _read_kind(self, kind: str, caller: Caller) -> list[Event]:
        views = islice(queue.list_views(kind, False, caller, 0, MAX_TASKS_PER_KIND), MAX_TASKS_PER_KIND)
        rows = {view.id: flavours.format_task(view, ApiFlavour.NATIVE) for view in views}
        known, self._rows[kind] = self._rows[kind], rows
        changed = [row for id, row in rows.items() if known.get(id) != row]
        ended = [id for id in known if id not in rows]
        return [Event("tasks", {"kind": kind, "tasks": changed, "ended": ended})] if changed or ended else []


class StorageView:
    """The states of storages of which the client knows, by mount path."""

    def __init__(self) -> None:
        self._states: Mapping[str, str] = {}
        self._count = -1

    def is_due(self) -> bool:
        """True if the state of a storage, or the configuration, has changed."""
        return self._read_count() != self._count

    def read(self) -> list[Event]:
        """Return the states that differ from the last call, in a thread. The first call returns all."""
        self._count = self._read_count()
        states = {storage.mount_path: storage.status for storage in storages.all() if not storage.disabled}
        changed = [
            {"mount_path": path, "status": status}
            for path, status in states.items()
            if self._states.get(path) != status
        ]
        self._states = states
        return [Event("storages", {"storages": changed})] if changed else []

    @staticmethod
    def _read_count() -> int:
        return change_counters().read(Topic.STORAGE_STATES) + change_counters().read(Topic.CONFIGURATION)


class EventStream(Response):
    """The answer with the events of a client, until its rights end, the client leaves or the server ends."""

    def __init__(self, path: str, evaluate: Evaluate, caller_name: str) -> None:
        super().__init__()
        self._path = path
        self._evaluate_rights = evaluate
        self._caller_name = caller_name
        self._is_ending = False
        self._tasks = KnownTasks()
        self._storages = StorageView()
        self._rights_count = -1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events. Raise Problem before the first one if the caller may not read, or has too many streams."""
        folder = await self._evaluate()
        scope.setdefault("extensions", {})[ENDS_WITH_SERVER] = self.end
        async with limits().event_streams.hold(self._caller_name):
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            sending = asyncio.create_task(self._send_all(send, folder))
            leaving = asyncio.create_task(_wait_for_end(receive))
            try:
                await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (sending, leaving):
                    task.cancel()
                await asyncio.gather(sending, leaving, return_exceptions=True)
        if not sending.cancelled():
            sending.result()

    def end(self) -> None:
        """End the answer soon."""
        self._is_ending = True

    async def _evaluate(self) -> PathAccess:
        self._rights_count = _count_rights()
        return (await self._evaluate_rights()).require_read()

    async def _send_all(self, send: Send, folder: PathAccess) -> None:
        async def write(content: bytes, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": content, "more_body": more})

        await write(b"retry: %d\n\n" % RECONNECT_MILLISECONDS)
        with suppress(Problem):
            async for content in self._iterate(folder):
                await write(content)
        await write(b"", more=False)

    async def _iterate(self, folder: PathAccess) -> AsyncIterator[bytes]:
        view = FolderView(folder)
        yield Event("ready", {"path": self._path}).encode()
        began = sent = time.monotonic()
        while not self._is_ending and time.monotonic() - began < MAX_STREAM_SECONDS:
            is_silent = time.monotonic() - sent > HEARTBEAT_INTERVAL_SECONDS
            if is_silent or view.has_changed() or self._is_due(folder.caller):
                try:
                    folder = await self._evaluate()
                except Problem as problem:
                    yield Event("end", {"code": problem.code, "message": problem.message}).encode()
                    return
                events = await self._read_events(folder.caller)
                old, view = view, FolderView(folder)
                if old.differs(view):
                    events.append(Event("folder", {"path": self._path}))
                for event in events:
                    yield event.encode()
                if is_silent:
                    yield HEARTBEAT
                if events or is_silent:
                    sent = time.monotonic()
            await asyncio.sleep(POLL_INTERVAL_SECONDS)

    def _is_due(self, caller: Caller) -> bool:
        if self._rights_count != _count_rights():
            return True
        return (not caller.is_guest and self._tasks.is_due()) or (caller.is_admin and self._storages.is_due())

    async def _read_events(self, caller: Caller) -> list[Event]:
        events: list[Event] = []
        if not caller.is_guest and self._tasks.is_due():
            events += await asyncio.to_thread(self._tasks.read, caller)
        if caller.is_admin and self._storages.is_due():
            events += await asyncio.to_thread(self._storages.read)
        return events


def _count_rights() -> int:
    return change_counters().read(Topic.CONFIGURATION) + change_counters().read(Topic.SESSIONS)


async def _wait_for_end(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
