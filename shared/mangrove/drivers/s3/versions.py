"""The versions of a bucket that keeps them: what was replaced is listed, and what was removed comes back.

Such a bucket puts a delete marker in front of an object that is removed. Removing the marker brings the object back.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

from mangrove.core import deadlines
from mangrove.core.concurrency import gather_bounded
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, StorageForbidden, StorageProblem
from mangrove.drivers.base import Driver, StoredVersion
from mangrove.drivers.refusals import refuse_existing
from mangrove.drivers.s3.client import S3Client
from mangrove.drivers.s3.copy import COPY_CONCURRENCY

MAX_VERSIONS_PER_FILE = 1000
MAX_KEYS_PER_CALL = 1000
CLOCK_SECONDS = 5.0  # by which the clock of the server may be behind that of this machine


class Removal(NamedTuple):
    """A removed object: its delete marker, and what came before it."""

    key: str
    marker_id: str
    is_latest: bool  # nothing was stored since
    version_id: str  # the content, "" if there is none
    older_ids: Sequence[str]


class VersionedBucket(Driver):
    """The operations of a storage in a bucket that may keep versions."""

    call: Any
    _root: str
    version_id = ""  # that a view shows

    def get_key(self, path: TreePath) -> str:
        """Return the key of a file."""
        return self._root + path[1:]

    def make_copy_source(self, key: str) -> dict[str, str]:
        """Return an object as `CopySource`."""
        return {"Bucket": self.options.bucket, "Key": key}

    async def has_versions(self) -> bool:
        try:
            answer = await self.call("get_bucket_versioning")
        except StorageForbidden:
            return False
        return str(answer.get("Status", "")) == "Enabled"

    async def list_versions(self, path: TreePath) -> Sequence[StoredVersion]:
        key, versions = self.get_key(path), list[StoredVersion]()
        async for item in _iterate(self.call, key):
            if item["Key"] != key or len(versions) >= MAX_VERSIONS_PER_FILE:
                break
            is_removed = "Size" not in item
            modified = item["LastModified"].timestamp()
            versions.append(
                StoredVersion(item["VersionId"], item.get("Size", 0), modified, bool(item["IsLatest"]), is_removed)
            )
        return versions

    async def restore_version(self, path: TreePath, id: str) -> None:
        key = self.get_key(path)
        await self.call("copy_object", Key=key, CopySource=self._make_version_source(key, id))

    def _make_version_source(self, key: str, id: str) -> dict[str, str]:
        return self.make_copy_source(key) | {"VersionId": id}

    def view_version(self, path: TreePath, id: str) -> Self:
        """Return the storage as it shows a version of a file instead of the present one."""
        view = copy.copy(self)
        for name in [name for name in vars(view) if hasattr(type(self), name)]:
            delattr(view, name)  # an operation that watches this storage
        view.call, view.version_id = _VersionApi(self.call, self.get_key(path), id), id
        return view

    async def find_removed(self, path: TreePath, since: float) -> bool:
        async for _ in self._iterate_removals(path, since):
            return True
        return False

    async def restore_removed(self, path: TreePath, target: TreePath, since: float) -> None:
        if path != target or await self._exists(path):
            await refuse_existing(self.stat, target)
        removals = [removal async for removal in self._iterate_removals(path, since)]
        if not removals:
            raise EntryNotFound
        old, new = self.get_key(path), self.get_key(target)
        if path == target and all(removal.is_latest for removal in removals):
            await self._delete_versions([(removal.key, removal.marker_id) for removal in removals])
            return
        copies = [
            partial(
                self.call, "copy_object", Key=new + removal.key.removeprefix(old),
                CopySource=self._make_version_source(removal.key, removal.version_id),
            )
            for removal in removals if removal.version_id
        ]  # fmt: skip
        await gather_bounded(copies, COPY_CONCURRENCY)

    async def _exists(self, path: TreePath) -> bool:
        try:
            await self.stat(path)
        except EntryNotFound:
            return False
        return True

    async def purge_removed(self, path: TreePath, since: float) -> None:
        batch: list[tuple[str, str]] = []
        async for removal in self._iterate_removals(path, since):
            batch += [(removal.key, id) for id in (removal.marker_id, *removal.older_ids)]
            if len(batch) >= MAX_KEYS_PER_CALL:
                await self._delete_versions(batch)
                batch.clear()
                deadlines.check()
        await self._delete_versions(batch)

    async def _delete_versions(self, versions: Sequence[tuple[str, str]]) -> None:
        for start in range(0, len(versions), MAX_KEYS_PER_CALL):
            objects = [{"Key": key, "VersionId": id} for key, id in versions[start : start + MAX_KEYS_PER_CALL]]
            answer = await self.call("delete_objects", Delete={"Objects": objects, "Quiet": True})
            if answer.get("Errors"):
                raise StorageProblem(f"not changed: {answer['Errors'][0].get('Message', 'unknown reason')[:200]}")

    async def _iterate_removals(self, path: TreePath, since: float) -> AsyncIterator[Removal]:
        """Yield the objects at a path and below that were removed at a time, in seconds since the epoch, or after."""
        key, before = self.get_key(path), int(since) - CLOCK_SECONDS
        for prefix in (key, f"{key}/"):
            group: list[Any] = []
            async for item in _iterate(self.call, prefix):
                if prefix == key and item["Key"] != key:
                    break
                if group and group[0]["Key"] != item["Key"]:
                    if (removal := _find_removal(group, before)) is not None:
                        yield removal
                    group = []
                group.append(item)
            if (removal := _find_removal(group, before)) is not None:
                yield removal


def _find_removal(items: Sequence[Any], before: float) -> Removal | None:
    """Return the first removal of an object after a time among its versions, which come newest first."""
    markers = [
        position
        for position, item in enumerate(items)
        if "Size" not in item and item["LastModified"].timestamp() >= before
    ]
    if not markers:
        return None
    position = markers[-1]
    older = items[position + 1 :]
    content = older[0]["VersionId"] if older and "Size" in older[0] else ""
    marker = items[position]
    return Removal(
        marker["Key"], marker["VersionId"], bool(marker["IsLatest"]), content, [item["VersionId"] for item in older]
    )


async def _iterate(call: Any, prefix: str) -> AsyncIterator[Any]:
    """Yield the versions and delete markers of all keys with a prefix, by key, the newest first."""
    place: dict[str, Any] = {}
    while True:
        answer = await call("list_object_versions", Prefix=prefix, **place)
        items = [*answer.get("Versions", ()), *answer.get("DeleteMarkers", ())]
        for item in sorted(items, key=_get_order):
            yield item
        if not answer.get("IsTruncated"):
            return
        place = {"KeyMarker": answer["NextKeyMarker"], "VersionIdMarker": answer["NextVersionIdMarker"]}


def _get_order(item: Any) -> tuple[bytes, bool, float, bool]:
    """Return the order of a version: by key, the newest first. Of the same second a removal came later."""
    return item["Key"].encode(), not item["IsLatest"], -item["LastModified"].timestamp(), "Size" in item


class _VersionApi:
    """The calls of a storage, of which those that read one object get a version of it."""

    def __init__(self, api: S3Client, key: str, id: str) -> None:
        self._api = api
        self._key = key
        self._id = id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    async def __call__(self, operation: str, **arguments: Any) -> Any:
        if operation in ("get_object", "head_object") and arguments.get("Key") == self._key:
            arguments["VersionId"] = self._id
        return await self._api(operation, **arguments)
