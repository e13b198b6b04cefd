"""Whether a copy holds the bytes of its source: proven by checksums, by what the storages vouch for, or by reading."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from mangrove.core.problems import EntryChanged, StorageProblem
from mangrove.drivers.base import Entry
from mangrove.tasks.core import endpoints
from mangrove.tasks.core.endpoints import Endpoint, have_same_bytes, is_same_range
from mangrove.tasks.core.partials import StepEnded
from mangrove.tasks.core.specs import CursorT, PartialFile, SourceVersion, SpecT
from mangrove.tasks.core.steps import Run

DIFFERS = "the target's bytes differ from the source's"


class Stored(NamedTuple):
    """A file that was stored: what it is, and the bytes that it must have (None: not known).

    `by_storage`: the storage copied it by itself, and `is_ours`: what is there is that copy. `compared`: that was done
    with the source. `md5`: in hex, of the bytes as they were read, when they passed through here in one go.
    """

    version: SourceVersion
    size: int | None
    by_storage: bool = False
    is_ours: bool = True
    compared: bool = False
    md5: str = ""


async def _find_difference(
    run: Run[SpecT, CursorT], source: Endpoint, version: Entry, target: Endpoint, stored: Stored, verify: bool
) -> str:
    """How the target differs from the source; "" for not at all. `verify`: read it where nothing else tells."""
    if None not in (stored.version.size, stored.size) and stored.version.size != stored.size:
        return f"the target has {stored.version.size} bytes instead of {stored.size}"
    same = await _compare_checksums(source, target)
    if same is False:
        return "the target's checksum differs from the source's"
    if same or stored.compared or not verify or await _is_proven(source, target, stored):
        return ""
    if stored.md5:
        is_same = await _get_md5(target) == stored.md5
    elif run.cursor.partial is not None and run.cursor.partial.path == target.path:
        is_same = await _compare_blocks(run, source, version, target, run.cursor.partial)
    else:
        is_same = await have_same_bytes(source, target)
    return "" if is_same else DIFFERS


async def check_copy(
    run: Run[SpecT, CursorT], source: Endpoint, version: Entry, target: Endpoint, stored: Stored, *, verify: bool
) -> None:
    """Refuse a target that differs from its source, and remove it; EntryChanged when the source is what has changed."""
    difference = await _find_difference(run, source, version, target, stored, verify)
    if difference:
        await withdraw(target, stored)
        await source.check_unchanged(version)
        raise StorageProblem(difference)


async def _compare_checksums(source: Endpoint, target: Endpoint) -> bool | None:
    """Whether the checksums that both storages know are equal; None when there are none of the same kind."""
    if not (source.driver.capabilities.get_checksums and target.driver.capabilities.get_checksums):
        return None
    one, other = await source.driver.get_checksums(source.path), await target.driver.get_checksums(target.path)
    kinds = one.keys() & other.keys()
    return all(one[kind] == other[kind] for kind in kinds) if kinds else None


async def _is_proven(source: Endpoint, target: Endpoint, stored: Stored) -> bool:
    """Whether the target vouches for what it was sent, and that was read rightly: a storage can check what is read as a
    whole, and of ranges only those of files on this machine never passed a wire. A server that knows checksums copies
    within itself."""
    if stored.by_storage and target.driver.capabilities.get_checksums:
        return True
    if not await target.driver.proves_writes():
        return False
    return bool(stored.md5) or await source.driver.proves_reads()


async def _get_md5(target: Endpoint) -> str:
    """As the storage knows it, else of the bytes."""
    if target.driver.capabilities.get_checksums and (
        known := (await target.driver.get_checksums(target.path)).get("md5")
    ):
        return known
    digest = hashlib.md5(usedforsecurity=False)
    async for block in await target.driver.read(target.path):
        digest.update(block)
    return digest.hexdigest()


async def _compare_blocks(
    run: Run[SpecT, CursorT], source: Endpoint, version: Entry, target: Endpoint, partial: PartialFile
) -> bool:
    """Return True if both hold the same bytes, read from where the last step ended; StepEnded if there is more."""
    entry, size = await target.driver.stat(target.path), version.size or 0
    if partial.stored is None or not partial.stored.matches(entry, by_tag=True):
        return False
    while partial.compared < size:
        length = min(endpoints.COMPARE, size - partial.compared)
        if not await is_same_range(source, target, version, entry, partial.compared, length):
            return False
        partial.compared += length
        if partial.compared < size and not run.has_time():
            raise StepEnded
    return True


async def look_at_copy(target: Endpoint, version: Entry) -> Stored:
    """What the storage made when it copied `version` by itself, or another one has put there since: a copy has the time
    of its source, or its tag, or the tag that S3 gives to an object made of that one part."""
    now = await target.driver.stat(target.path)
    tags = {version.etag, _make_part_tag(version.etag)} - {""}
    is_ours = now.size == version.size and (now.modified == version.modified or now.etag in tags)
    return Stored(SourceVersion.of(now), version.size, by_storage=True, is_ours=is_ours)


def _make_part_tag(etag: str) -> str:
    """The ETag of an S3 object that was uploaded in one part, whose own tag is an MD5; "" for other tags."""
    try:
        return f"{hashlib.md5(bytes.fromhex(etag), usedforsecurity=False).hexdigest()}-1"
    except ValueError:
        return ""


async def withdraw(target: Endpoint, stored: Stored) -> None:
    """Remove what was stored and is not to stay, unless it is another file by now."""
    now = await target.find()
    try:
        if now is not None and stored.is_ours and stored.version.matches(now, by_tag=True):
            await target.remove_unchanged(now)
    except EntryChanged:
        pass  # another file came there just now
