"""Complete files that get their names: copies and small uploads, many of which are flushed together."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, TypeVar, TypeVarTuple, Unpack

from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem
from mangrove.drivers.local import tmpfile
from mangrove.drivers.local.durability import Durability
from mangrove.drivers.local.rooted import OpenFolder, check_wanted, make_problem
from mangrove.drivers.part_names import make_part_name

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")
MAX_BATCH = 512  # files that are written before the first gets its name, so that they are flushed together
DESCRIPTORS_PER_FILE = 6  # of a batch: the file, the folders at both ends; as many again for another thread


class CompleteFile(NamedTuple):
    """An open file that will be `name` in its open folder. It has no name there yet, or `part`."""

    handle: int
    folder: OpenFolder
    name: str
    part: str
    overwrite: bool
    needs_status: bool
    """`commit` returns the status of the file."""

    @classmethod
    def create(
        cls, folder: OpenFolder, name: str, mode: int, overwrite: bool, *, needs_status: bool = False
    ) -> CompleteFile:
        """Return a new empty file, whose bytes the caller writes."""
        part, handle = "", tmpfile.create_nameless(folder.handle, mode)
        if handle is None:
            part = make_part_name()
            handle = tmpfile.create_named(folder.handle, part, mode)
        return cls(handle, folder, name, part, overwrite, needs_status)

    def drop(self) -> None:
        """Remove a file that must not stay."""
        os.close(self.handle)
        if self.part:
            tmpfile.discard(self.folder.handle, self.part)

    def commit(self) -> os.stat_result | None:
        """Give the file its name; if that fails, remove it."""
        handle, folder = self.handle, self.folder.handle
        try:
            check_wanted()
            if self.part:
                tmpfile.commit(handle, folder, self.part, self.name, overwrite=self.overwrite)
            else:
                tmpfile.commit_nameless(handle, folder, self.name, overwrite=self.overwrite)
            status = os.fstat(handle) if self.needs_status else None
        except BaseException:
            self.drop()
            raise
        os.close(handle)
        return status


Outcome = os.stat_result | StorageProblem | None
"""The result of `commit`, or the failure that it raised."""


def catch_problem(work: Callable[[Unpack[Arguments]], Result], *args: *Arguments) -> Result | StorageProblem:
    """Return the result of a call, or the problem that it raises."""
    try:
        return work(*args)
    except OSError as error:
        return make_problem(error)
    except StorageProblem as problem:
        return problem


def try_commit(file: CompleteFile) -> Outcome:
    """Commit a file. Return the outcome."""
    return catch_problem(file.commit)


def sync_bytes(durability: Durability, files: Collection[CompleteFile]) -> None:
    """Make the bytes of files survive; if that fails, drop all of them."""
    try:
        durability.sync_files({file.handle: file.folder.device for file in files})
    except BaseException:
        for file in files:
            file.drop()
        raise


def commit_durably(
    durability: Durability, paths: Mapping[int, TreePath], files: Mapping[int, CompleteFile]
) -> dict[int, Outcome]:
    """Write first all bytes, then all names, then the folders: so few flushes are enough for many files.

    Return the outcome of each file.
    """
    try:
        sync_bytes(durability, files.values())
    except OSError as error:
        return dict.fromkeys(files, make_problem(error))
    outcomes: dict[int, Outcome] = {}
    named: dict[int, TreePath] = {}  # by the handles of folders, one file in each
    for index, file in files.items():
        outcomes[index] = outcome = try_commit(file)
        if not isinstance(outcome, StorageProblem):
            named[file.folder.handle] = paths[index]
    try:
        durability.sync_open_folders(named)
    except StorageProblem as problem:
        return {
            index: outcome if isinstance(outcome, StorageProblem) else problem for index, outcome in outcomes.items()
        }
    return outcomes
