"""Changes of the files bucket, by this service and by other programs, as EventBridge reports them through a queue.

Events arrive late, twice and in any order. So an event only names a key: the log of the search index gets what the
bucket has at that key now, and the last event of a key leaves the log right. An event of this service's own change
repeats what is logged already.

Listings need no event: no instance keeps one longer than its configuration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any

import orjson

from mangrove import configuration
from mangrove.cloud import event_bus
from mangrove.core.concurrency import gather_bounded
from mangrove.core.paths import TreePath, is_valid_name
from mangrove.core.problems import EntryNotFound, Problem
from mangrove.core.telemetry import log_warning
from mangrove.drivers.base import Entry
from mangrove.drivers.part_names import has_part, leads_to_trash
from mangrove.drivers.s3.driver import PLACEHOLDER
from mangrove.drivers.s3.options import find_aws_options
from mangrove.drivers.shown_names import NameMapping
from mangrove.tree import mounts
from mangrove.tree.mounts import Mount, StoragePath
from mangrove.tree.operations import journal

FILE_CHANGED = "FileChanged"
CREATED, DELETED = "Object Created", "Object Deleted"
PERMANENTLY = "Permanently Deleted"
LOOKUP_CONCURRENCY = 16
MAX_KEY_BYTES = 1024  # the limit of S3


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """An event of one object."""

    bucket: str
    key: str
    is_deleted: bool
    is_old_version: bool  # which was deleted for good: the file is as it was, or was removed before
    time: str  # ISO 8601

    @classmethod
    def parse(cls, text: str) -> ObjectEvent:
        """Read the text of a message. Raise ValueError if it is no event of an object."""
        try:
            event = orjson.loads(text)
            detail = event["detail"]
            bucket, key = detail["bucket"]["name"], detail["object"]["key"]
            is_old_version = detail.get("deletion-type") == PERMANENTLY and "version-id" in detail["object"]
            kind, time = event["detail-type"], event["time"]
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not an event of an object: {error!r}") from None
        is_valid = all(isinstance(text, str) for text in (bucket, key, time)) and kind in (CREATED, DELETED)
        if not is_valid or not 0 < len(key.encode("utf-8", "surrogatepass")) <= MAX_KEY_BYTES:
            raise ValueError(f"not an event of an object: {kind!r}")
        return cls(bucket, key, kind == DELETED, is_old_version, time)


@dataclass(frozen=True, slots=True)
class ChangedPath:
    """The path that an event names, in one of the storages that show it."""

    event: ObjectEvent
    mount: Mount
    path: TreePath
    is_file: bool  # not the mark of a folder
    is_unknown: bool  # `path` is a folder somewhere above: listings show other names below it


Place = tuple[Mount, TreePath]


async def follow(event: Mapping[str, Any]) -> dict[str, Any]:
    """Follow a batch of the queue. Return the messages that are no events; they end among the dead letters.

    Raise Problem if the batch has to be delivered again.
    """
    events, refused = read_batch(event["Records"])
    table = await mounts.ready()
    mapping = NameMapping(configuration.cached().settings.filename_char_mapping)
    changed = [path for mount in table.mounts for path in find_paths(mount, events, mapping)]
    entries = await _find_entries((path.mount, path.path) for path in changed if not path.is_unknown)
    if journal.is_logged():
        await _log(entries | await _find_folders(entries), {(p.mount, p.path) for p in changed if p.is_unknown})
    details = [detail for path in changed if (detail := _describe(path, entries.get((path.mount, path.path))))]
    await asyncio.to_thread(event_bus.announce, FILE_CHANGED, details)
    return {"batchItemFailures": [{"itemIdentifier": id} for id in refused]}


def read_batch(messages: Iterable[Mapping[str, Any]]) -> tuple[list[ObjectEvent], list[str]]:
    """Return the events of a batch without repetitions, and the ids of messages that are no events."""
    events: dict[tuple[str, str, bool, bool], ObjectEvent] = {}
    refused = []
    for message in messages:
        try:
            parsed = ObjectEvent.parse(message["body"])
        except ValueError as error:
            log_warning("a message of the queue is no event of an object", reason=str(error)[:200])
            refused.append(message["messageId"])
        else:
            events[parsed.bucket, parsed.key, parsed.is_deleted, parsed.is_old_version] = parsed
    return list(events.values()), refused


def find_paths(mount: Mount, events: Iterable[ObjectEvent], mapping: NameMapping) -> list[ChangedPath]:
    """Return the paths of events that a mount shows."""
    options = find_aws_options(mount.storage.driver, mount.storage.addition)
    if options is None:
        return []
    root = str(TreePath(options.root_folder_path)).strip("/")
    prefix, placeholder = f"{root}/" if root else "", options.placeholder or PLACEHOLDER
    paths = []
    for event in events:
        if event.bucket == options.bucket and event.key.startswith(prefix):
            *folders, name = event.key.removeprefix(prefix).split("/")
            is_file = name not in ("", placeholder)
            path = _find_path(mount, event, [*folders, name] if is_file else folders, mapping, is_file)
            paths += [path] if path is not None else []
    return paths


def _find_path(
    mount: Mount, event: ObjectEvent, names: Sequence[str], mapping: NameMapping, is_file: bool
) -> ChangedPath | None:
    """Return the path of an event inside a mount; None if listings leave it out."""
    unchanged_names = list(takewhile(lambda name: mapping.apply(name) == name, names))
    if not names or not all(map(is_valid_name, names)):
        return None
    try:
        whole, path = TreePath("/" + "/".join(names)), TreePath("/" + "/".join(unchanged_names))
    except Problem:
        return None  # no path of the service leads to it
    if has_part(whole) or leads_to_trash(whole):
        return None
    return ChangedPath(event, mount, path, is_file, len(unchanged_names) < len(names))


async def _find_entries(places: Iterable[Place]) -> dict[Place, Entry | None]:
    """Return what is at these places now; None where nothing is."""
    distinct = list(dict.fromkeys(places))
    return dict(
        zip(
            distinct,
            await gather_bounded([partial(_find_entry, *p) for p in distinct], LOOKUP_CONCURRENCY),
            strict=True,
        )
    )


async def _find_entry(mount: Mount, path: TreePath) -> Entry | None:
    try:
        return await (await mount.get_driver()).stat(path)
    except EntryNotFound:
        return None


async def _find_folders(entries: Mapping[Place, Entry | None]) -> dict[Place, Entry | None]:
    """Return the folders that may have appeared or vanished with these entries.

    All folders above an entry exist. Those above a missing one are looked up until one exists.
    """
    folders: dict[Place, Entry | None] = {
        (mount, folder): Entry(folder.name, 0, mount.storage.modified.timestamp(), True)
        for (mount, path), entry in entries.items()
        if entry is not None
        for folder in path.ancestors()[1:-1]
    }
    missing = [place for place, entry in entries.items() if entry is None]
    while parents := {(mount, path.parent) for mount, path in missing if path.parent != "/"} - folders.keys():
        parent_entries = await _find_entries(parents)
        folders |= parent_entries
        missing = [place for place, entry in parent_entries.items() if entry is None]
    return folders


async def _log(entries: Mapping[Place, Entry | None], unknown: Iterable[Place]) -> None:
    """Log entries as they are now, and folders whose content is unknown."""

    async def open_path(mount: Mount, path: TreePath) -> StoragePath:
        return StoragePath(await mount.get_driver(), path, mount)

    ordered = sorted(entries.items(), key=lambda item: (item[0][0].storage.id, item[0][1].parent))
    await journal.note_entries([(await open_path(*place), entry) for place, entry in ordered])
    await journal.note_unknown([await open_path(*place) for place in unknown])


def _describe(path: ChangedPath, entry: Entry | None) -> dict[str, Any] | None:
    """Return the detail of the event FileChanged; None unless the file is now as its event says."""
    event, is_there = path.event, entry is not None and not entry.is_dir
    if not path.is_file or path.is_unknown or event.is_old_version or is_there == event.is_deleted:
        return None
    change = "removed" if event.is_deleted else "written"
    size = entry.size if entry is not None and is_there else None
    return {"path": str(path.mount.path / path.path), "change": change, "size": size, "time": event.time}
