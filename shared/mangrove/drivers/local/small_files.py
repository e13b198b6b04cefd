"""Small files that are stored in one call, alone or together, each completely or not at all."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Sequence

from mangrove.core.descriptors import count_free_for_bulk
from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem
from mangrove.drivers.base import Entry, NewFile, Upload
from mangrove.drivers.local.blocks import write_chunks
from mangrove.drivers.local.commits import (
    DESCRIPTORS_PER_FILE,
    MAX_BATCH,
    CompleteFile,
    Outcome,
    commit_durably,
    try_commit,
)
from mangrove.drivers.local.durability import Durability
from mangrove.drivers.local.rooted import OpenFolders, Root, make_problem
from mangrove.drivers.local.tmpfile import NEW_FILE
from mangrove.drivers.part_names import refuse_part_name
from mangrove.drivers.refusals import refuse_other_size

MAX_SMALL_BODY_BYTES = 128 << 10  # that wait in memory for their end
MakeEntry = Callable[[TreePath, os.stat_result], Entry]


def is_small(upload: Upload) -> bool:
    """True if a body is announced to be small."""
    return upload.size is not None and upload.size <= MAX_SMALL_BODY_BYTES


async def read_small(body: AsyncIterator[bytes], upload: Upload) -> bytes:
    """Return the bytes of a small body. Raise BadRequest if it has another size than announced."""
    chunks, size = list[bytes](), 0
    async for chunk in body:
        size += len(chunk)
        if size <= MAX_SMALL_BODY_BYTES:
            chunks.append(chunk)
    refuse_other_size(size, upload.size)
    return b"".join(chunks)


def get_stored(results: Sequence[Entry | StorageProblem]) -> Entry:
    """Return the entry of the only file. Raise its problem."""
    (result,) = results
    if isinstance(result, StorageProblem):
        raise result
    return result


class SmallFileWriter:
    """A writer of small files into one root. It blocks, and is called in threads."""

    def __init__(self, root: Root, durability: Durability, make_entry: MakeEntry, is_own: bool) -> None:
        self._root = root
        self._is_own = is_own  # the files are internal ones of the service
        self._durability = durability
        self._make_entry = make_entry

    def write(self, files: Sequence[NewFile]) -> list[Entry | StorageProblem]:
        """Store files. Return the entry of each, or its problem.

        Each folder is opened once per batch, which has as many files as there are free descriptors for.
        """
        results: list[Entry | StorageProblem] = []
        while len(results) < len(files):
            size = min(MAX_BATCH, max(1, count_free_for_bulk() // DESCRIPTORS_PER_FILE))
            with OpenFolders(self._root) as folders:
                results += self._write_batch(folders, files[len(results) : len(results) + size])
        return results

    def _write_batch(self, folders: OpenFolders, files: Sequence[NewFile]) -> list[Entry | StorageProblem]:
        outcomes: dict[int, Outcome] = {}
        unsynced: dict[int, CompleteFile] = {}
        for index, file in enumerate(files):
            try:
                complete = self._write(folders, file)
            except OSError as error:
                outcomes[index] = make_problem(error)
            except StorageProblem as problem:
                outcomes[index] = problem
            else:
                if file.upload.durable:
                    unsynced[index] = complete
                else:
                    outcomes[index] = try_commit(complete)
        if unsynced:
            outcomes |= commit_durably(self._durability, {index: files[index].path for index in unsynced}, unsynced)
        return [self._describe(file.path, outcomes[index]) for index, file in enumerate(files)]

    def _describe(self, path: TreePath, outcome: Outcome) -> Entry | StorageProblem:
        assert outcome is not None  # every file needs its status
        return outcome if isinstance(outcome, StorageProblem) else self._make_entry(path, outcome)

    def _write(self, folders: OpenFolders, file: NewFile) -> CompleteFile:
        """Return the file with its bytes, without its name."""
        refuse_part_name(file.path)
        folder, name = folders.open_target(file.path, file.upload.overwrite)
        mode, overwrite = self._root.limit_mode(NEW_FILE), file.upload.overwrite
        complete = CompleteFile.create(folder, name, mode, overwrite, needs_status=True)
        try:
            write_chunks(complete.handle, [file.content], 0, self._is_own)
            os.utime(complete.handle, (time.time(), file.upload.modified))
        except BaseException:
            complete.drop()
            raise
        return complete
