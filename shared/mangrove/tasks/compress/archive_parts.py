"""The archive of a task in staging: a file in parts, and for each part its records for the end of the archive."""

from __future__ import annotations

import time

from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.chunked import stream
from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.platform import platform
from mangrove.core.problems import EntryNotFound, NotSupported, StorageProblem
from mangrove.drivers.base import Driver, Entry, Upload
from mangrove.tasks.compress.declaration import CompressCursor, CompressSpec
from mangrove.tasks.core import files, staging
from mangrove.tasks.core.model import PartialFile
from mangrove.tasks.core.partials import PartReceipts, begin_partial, drop_partial, find_receipts
from mangrove.tasks.core.staging import StagedList, StagedPath
from mangrove.tasks.core.steps import Run
from mangrove.tree.operations.packing import PackedEntry

PART_BYTES = 16 << 20
MIN_BUCKET_PART_BYTES = 5 << 20  # the minimum of S3, except at the end of a file
MAX_PARTS = 9_000  # the maximum of S3 is 10,000
MAX_DIRECTORY_BYTES = 64 << 20  # of one part
DIRECTORY_HEAD = b"\0"  # before the records, since S3 returns no range of an empty object


def list_packed(task_id: str, count: int) -> StagedList[PackedEntry]:
    """Return the list of the entries that a task packs."""
    return StagedList(task_id, "packed", count, lambda row: PackedEntry(*row))


async def find_archive(run: Run[CompressSpec, CompressCursor]) -> StagedPath:
    """Return the path of the archive in staging."""
    return StagedPath(await staging.driver(), staging.get_path(run.task.id, run.spec.name))


class ArchiveParts:
    """The parts of the archive. The cursor has the number of valid parts."""

    def __init__(
        self, run: Run[CompressSpec, CompressCursor], path: StagedPath, partial: PartialFile, receipts: PartReceipts
    ) -> None:
        self._run = run
        self._path = path
        self._partial = partial
        self._receipts = receipts

    @property
    def _storage(self) -> Driver:
        return self._path.driver

    @property
    def max_bytes(self) -> int:
        """The bytes after which a part ends."""
        return max(PART_BYTES, -(-self._run.view.total_bytes // MAX_PARTS))

    @property
    def min_bytes(self) -> int:
        """The bytes that a part needs to be the last one of a step."""
        return 1 if platform().has_disk else MIN_BUCKET_PART_BYTES

    async def store(self, content: bytes, directory: bytes) -> None:
        """Store the next part, and its records for the directory at the end. The caller saves the cursor."""
        cursor = self._run.cursor
        number = cursor.parts + 1
        records = DIRECTORY_HEAD + directory
        upload = Upload(len(records), time.time())
        await staging.store(self._run.task.id, f"directory-{number:06}", stream(records), upload)
        receipt = await finish_despite_cancel(
            self._storage.write_part(self._path.path, self._partial.token, number, cursor.size, content)
        )
        await self._receipts.add(cursor.parts, receipt)
        await self._receipts.save()
        cursor.parts, cursor.size = number, cursor.size + len(content)
        pass_checkpoint("compress.part")

    async def read_directory(self) -> bytes:
        """Return the records of all parts, joined."""
        directory = bytearray()
        for number in range(1, self._run.cursor.parts + 1):
            path = StagedPath(self._storage, staging.get_path(self._run.task.id, f"directory-{number:06}"))
            directory += (await files.read_whole(path, MAX_DIRECTORY_BYTES)).removeprefix(DIRECTORY_HEAD)
        return bytes(directory)

    async def finish(self) -> None:
        """Join the parts to a file, unless a worker that died has already done so."""
        size = self._run.cursor.size
        try:
            await self._storage.finish(
                self._path.path, self._partial.token, self._receipts.list(), Upload(size, time.time())
            )
        except EntryNotFound:
            present = await files.find(self._path)
            if present is None or present.size != size:
                raise StorageProblem("the parts stored so far are gone") from None
        self._run.cursor.partial = None


async def open_parts(run: Run[CompressSpec, CompressCursor]) -> ArchiveParts:
    """Return the archive of a run. Begin it again if its parts do not fit the cursor any more."""
    path = await find_archive(run)
    await staging.make_parent(path.path)
    upload, source = Upload(None, time.time()), Entry(run.spec.name, None, 0.0, False)
    while True:
        partial = await begin_partial(run, path, path.driver, upload, PART_BYTES, source)
        if partial is None:
            raise NotSupported
        receipts = await find_receipts(run, partial)
        if receipts is not None and len(receipts) == run.cursor.parts:
            return ArchiveParts(run, path, partial, receipts)
        if receipts is None or len(receipts):
            await drop_partial(run)
        cursor = run.cursor
        run.cursor = CompressCursor(
            attempt=cursor.attempt, is_planned=cursor.is_planned, entry_count=cursor.entry_count,
            partial=cursor.partial, has_receipts=cursor.has_receipts,
        )  # fmt: skip
