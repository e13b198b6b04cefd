"""The proof that a copy has the bytes of its source: by checksums, by guarantees of the storages, or by reading."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from mangrove.core.problems import EntryChanged, StorageProblem
from mangrove.drivers.base import Entry
from mangrove.tasks.core import files
from mangrove.tasks.core.files import FilePath, have_same_bytes, have_same_range
from mangrove.tasks.core.model import CursorT, PartialFile, SourceVersion, SpecT
from mangrove.tasks.core.partials import StepEnded
from mangrove.tasks.core.steps import Run

DIFFERENT_BYTES = "the target's bytes differ from the source's"


class StoredCopy(NamedTuple):
    """A file that a copy has stored."""

    version: SourceVersion
    size: int | None
    """Bytes that it must have; None if unknown."""
    by_storage: bool = False
    """The storage copied it itself."""
    is_ours: bool = True
    """The file at the target is that copy."""
    compared: bool = False
    """It was compared with the source."""
    md5: str = ""
    """In hex, of the bytes in transit, if they passed through this process in order."""


async def _find_difference(
    run: Run[SpecT, CursorT], source: FilePath, version: Entry, target: FilePath, stored: StoredCopy, verify: bool
) -> str:
    """Return the difference between the target and the source, "" if there is none.

    `verify`: read it if there is no other proof.
    """
    if None not in (stored.version.size, stored.size) and stored.version.size != stored.size:
        return f"the target has {stored.version.size} bytes instead of {stored.size}"
    are_equal = await _compare_checksums(source, target)
    if are_equal is False:
        return "the target's checksum differs from the source's"
    if are_equal or stored.compared or not verify or await _is_proven(source, target, stored):
        return ""
    if stored.md5:
        is_same = await _get_md5(target) == stored.md5
    elif run.cursor.partial is not None and run.cursor.partial.path == target.path:
        is_same = await _compare_blocks(run, source, version, target, run.cursor.partial)
    else:
        is_same = await have_same_bytes(source, target)
    return "" if is_same else DIFFERENT_BYTES


async def check_copy(
    run: Run[SpecT, CursorT], source: FilePath, version: Entry, target: FilePath, stored: StoredCopy, *, verify: bool
) -> None:
    """Raise StorageProblem if a target differs from its source, and remove it; EntryChanged if the source has
    changed."""
    difference = await _find_difference(run, source, version, target, stored, verify)
    if difference:
        await withdraw(target, stored)
        await files.check_unchanged(source, version)
        raise StorageProblem(difference)


async def _compare_checksums(source: FilePath, target: FilePath) -> bool | None:
    """True if checksums that both storages know are equal; None if they have none in common."""
    if not (source.driver.capabilities.get_checksums and target.driver.capabilities.get_checksums):
        return None
    source_sums = await source.driver.get_checksums(source.path)
    target_sums = await target.driver.get_checksums(target.path)
    kinds = source_sums.keys() & target_sums.keys()
    return all(source_sums[kind] == target_sums[kind] for kind in kinds) if kinds else None


async def _is_proven(source: FilePath, target: FilePath, stored: StoredCopy) -> bool:
    """True if the storages guarantee the bytes: the target those that it was sent, and the source those that were read.

    A storage checks a file that is read as a whole; of ranges, only those of this computer are safe. A server with
    checksums copies safely within itself.
    """
    if stored.by_storage and target.driver.capabilities.get_checksums:
        return True
    if not await target.driver.proves_writes():
        return False
    return bool(stored.md5) or await source.driver.proves_reads()


async def _get_md5(target: FilePath) -> str:
    """Return the MD5 that the storage knows, otherwise that of the bytes."""
    if target.driver.capabilities.get_checksums and (
        known := (await target.driver.get_checksums(target.path)).get("md5")
    ):
        return known
    digest = hashlib.md5(usedforsecurity=False)
    async for block in await target.driver.read(target.path):
        digest.update(block)
    return digest.hexdigest()


async def _compare_blocks(
    run: Run[SpecT, CursorT], source: FilePath, version: Entry, target: FilePath, partial: PartialFile
) -> bool:
    """True if both have the same bytes, read from the end of the last step on. Raise StepEnded if there is more."""
    entry, size = await target.driver.stat(target.path), version.size or 0
    if partial.stored is None or not partial.stored.matches(entry, by_tag=True):
        return False
    while partial.compared < size:
        length = min(files.COMPARED_BYTES, size - partial.compared)
        if not await have_same_range(source, target, version, entry, partial.compared, length):
            return False
        partial.compared += length
        if partial.compared < size and not run.has_time():
            raise StepEnded
    return True


async def look_at_copy(target: FilePath, version: Entry) -> StoredCopy:
    """Return the entry at the target if it is the copy of `version` that the storage made itself, else None.

    A copy has the time or the etag of its source, or the etag of an S3 object that was uploaded in one part. Any other
    file was stored there since.
    """
    present = await target.driver.stat(target.path)
    tags = {version.etag, _make_part_tag(version.etag)} - {""}
    is_ours = present.size == version.size and (present.modified == version.modified or present.etag in tags)
    return StoredCopy(SourceVersion.of(present), version.size, by_storage=True, is_ours=is_ours)


def _make_part_tag(etag: str) -> str:
    """Return the ETag of an S3 object that was uploaded in one part, from the MD5 of the part; "" for other etags."""
    try:
        return f"{hashlib.md5(bytes.fromhex(etag), usedforsecurity=False).hexdigest()}-1"
    except ValueError:
        return ""


async def withdraw(target: FilePath, stored: StoredCopy) -> None:
    """Remove a stored file that must not stay, unless another file is there now."""
    present = await files.find(target)
    try:
        if present is not None and stored.is_ours and stored.version.matches(present, by_tag=True):
            await files.remove_unchanged(target, present)
    except EntryChanged:
        pass  # another file was stored there meanwhile
