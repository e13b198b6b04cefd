"""One step of a transfer: both its ends with the present rights of the owner, and the state that its batches share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from mangrove import configuration
from mangrove.core.descriptors import wait_for_bulk
from mangrove.core.paths import TreePath
from mangrove.core.problems import NotSupported, Problem
from mangrove.identity.rights import Right
from mangrove.tasks.core import authorization, staging
from mangrove.tasks.core.authorization import TargetAccess
from mangrove.tasks.core.file_copy import CopyMode
from mangrove.tasks.core.files import FilePath, TargetListing
from mangrove.tasks.core.model import ManifestEntry
from mangrove.tasks.core.registry import KINDS
from mangrove.tasks.core.staging import StagedList, StagedPath
from mangrove.tasks.core.steps import Run
from mangrove.tasks.transfer.declaration import TransferCursor, TransferSpec
from mangrove.tasks.transfer.rule_check import RuleCheck
from mangrove.tree.access import PathAccess
from mangrove.tree.mounts import StoragePath

INITIAL_COPY_CONCURRENCY = 4
QUICK_COPY_SECONDS = 5.0  # of a copy, below which one more may run

TransferRun: TypeAlias = Run[TransferSpec, TransferCursor]


@dataclass(frozen=True, slots=True)
class TransferRoute:
    """Both ends of a transfer."""

    source: FilePath
    target: TargetAccess
    access: PathAccess | None
    """The source in the tree; None if it is staged."""
    overwrite: bool
    """Files may be replaced."""
    is_move: bool = False
    is_listed: bool = False
    """Only some of the entries below the source are requested."""
    target_paths: Mapping[str, str] = field(default_factory=dict)
    """The paths below the target by the paths below the source, of the entries where they differ."""
    is_flat: bool = False
    """Each entry goes right into the target."""
    rule_check: RuleCheck = field(default_factory=RuleCheck)
    """Of the items of a move."""

    def find_target(self, path: str) -> StoragePath:
        """Return the target of an entry below the source."""
        return self.target.storage_path.child(self._map(path))

    @property
    def is_renaming(self) -> bool:
        """True if files of a folder may go to several folders."""
        return self.is_flat or bool(self.target_paths)

    def find_paths(self, path: str) -> tuple[TreePath, TreePath]:
        """Return the path of an entry below the source in its storage, and its path in the other storage."""
        below = TreePath(path)
        target = self._map(path) if self.is_renaming else below
        return self.source.path / below, self.target.storage_path.path / target

    def _map(self, path: str) -> str:
        """Return the path below the target: the same, or below the one of the nearest folder with another path."""
        if self.is_flat:
            return path.rpartition("/")[2]
        if not self.target_paths:
            return path
        head, tail = path, ""
        while head and head not in self.target_paths:
            head, _, name = head.rpartition("/")
            tail = f"/{name}{tail}"
        return self.target_paths[head] + tail if head else path

    async def find_refusal(self, path: str) -> Problem | None:
        """Return the reason why an entry must not be transferred, None if it may.

        Each entry of a list has rules of its own.
        """
        refusal = self.target.find_refusal(self._map(path))
        if refusal is not None or self.access is None:
            return refusal
        try:
            if self.is_listed:
                self.access.child(path).require_export(self.is_move)
            await self.require_kept_rules(path)
        except Problem as problem:
            return problem
        return None

    async def require_kept_rules(self, path: str) -> None:
        """Raise RuleLeftBehind if a rule protects the item of a move to which an entry belongs, and would stay behind.

        The item is the source itself, an entry of a list with everything below it, or a file that is moved up. Rules
        are those of this moment: a rule that is made during the task keeps the rest of the item at the source.
        """
        if not self.is_move or self.access is None:
            return
        item = path if self.is_flat else path.partition("/")[0] if self.is_listed else ""
        await self.rule_check.require(item, self.access, partial(self._find_ends, item))

    def _find_ends(self, item: str) -> tuple[TreePath, StoragePath, TreePath, StoragePath]:
        """Return the path of an item in the tree and in its storage, and its paths at the target."""
        assert self.access is not None and isinstance(self.source, StoragePath)
        new_path = self.target.find_path(self._map(item))
        return self.access.path / item, self.source.child(item), new_path, self.find_target(item)


async def find_route(run: TransferRun) -> TransferRoute:
    """Return the ends of a transfer. Raise AccessDenied or a similar problem if the owner may not use them."""
    spec, is_move = run.spec, run.task.kind == "move"
    kind = KINDS[run.task.kind]
    right = Right.RENAME if is_move and spec.is_rename else kind.right
    caller = await authorization.authorize_caller(run.task, right)
    target = await authorization.resolve_target(caller, spec.target_dir, spec.name, spec.password)
    target.is_write_only = spec.write_only and not target.folder.may_read()
    overwrite = spec.overwrite and target.may_replace()
    if kind.is_staged:
        return TransferRoute(StagedPath(await staging.driver(), TreePath(spec.source)), target, None, overwrite)
    source = await authorization.access_path(caller, spec.source, spec.password)
    if is_move:
        (source if spec.is_listed else source.parent).require(right)
    if spec.is_listed:
        source.require_read()
    else:
        source.require_export(is_move)
    storage_path = await source.locate()
    if is_move and not storage_path.driver.capabilities.remove:
        raise NotSupported
    is_renaming = spec.selection == "renamed_list"
    target_paths = await staging.read_target_paths(run.task.id, spec.count) if is_renaming else {}
    route = TransferRoute(
        storage_path, target, source, overwrite, is_move, spec.is_listed, target_paths, spec.selection == "files"
    )
    if not spec.is_listed:
        await route.require_kept_rules("")
    return route


class RampUpLimiter:
    """A limit for the number of concurrent copies: few at first, one more after each quick copy, up to `limit`.

    Without it, many files of a slow source would all be unfinished when the time is over. A copy waits while few
    descriptors are free.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = min(INITIAL_COPY_CONCURRENCY, limit)
        self._semaphore = asyncio.Semaphore(self._count)
        self._last_seconds = 0.0

    async def copy(self, run: TransferRun, copying: Callable[[], Awaitable[None]]) -> bool:
        """Copy a file when its turn comes. Return False if there is no time left for it."""
        async with self._semaphore:
            if not run.has_time_for(self._last_seconds):
                return False
            await wait_for_bulk()
            began = time.monotonic()
            await copying()
            self._last_seconds = time.monotonic() - began
        if self._last_seconds < QUICK_COPY_SECONDS and self._count < self._limit:
            self._count += 1
            self._semaphore.release()
        return True


@dataclass(slots=True)
class TransferStep:
    """One step of the state Move."""

    run: TransferRun
    route: TransferRoute
    failed: StagedList[ManifestEntry]
    """The entries that failed in this round."""
    listing: TargetListing
    mode: CopyMode
    is_direct: bool
    """The target can store many files in one call, since it refuses taken names itself."""
    limiter: RampUpLimiter
    saved: float = field(default_factory=time.monotonic)

    @property
    def target(self) -> StoragePath:
        return self.route.target.storage_path

    @property
    def is_move(self) -> bool:
        return self.run.task.kind == "move"

    async def save(self) -> None:
        """Save, with the progress so far."""
        self.run.show_progress(self.run.cursor.bytes_done)
        await self.run.save()
        self.saved = time.monotonic()


async def open_step(run: TransferRun, route: TransferRoute) -> TransferStep:
    """Return the step. Moved files are made durable before the source is removed, whatever the setting is."""
    spec, is_move, driver = run.spec, run.task.kind == "move", route.target.storage_path.driver
    settings = configuration.cached().settings
    mode = CopyMode(
        route.overwrite, spec.keep_existing and not route.overwrite, is_move or settings.is_durable,
        verify=is_move and settings.verify_moves,
    )  # fmt: skip
    is_direct = await driver.can_refuse_existing()
    limiter = RampUpLimiter(settings.small_file_threads_num)
    return TransferStep(run, route, open_failed(run, run.cursor), TargetListing(driver), mode, is_direct, limiter)


def open_entries(run: TransferRun, round: int, count: int) -> StagedList[ManifestEntry]:
    """Return the list of the entries that are copied in a round."""
    return staging.open_entries(run.task.id, round, count, run.cursor.only_entry)


def open_failed(run: TransferRun, cursor: TransferCursor) -> StagedList[ManifestEntry]:
    """Return the list of the entries that failed, for the next round; of a part if `cursor` is that of a part."""
    if cursor.part is None:
        return staging.open_entries(run.task.id, cursor.round + 1, cursor.failed_count, cursor.only_entry)
    name = make_part_name("failed", cursor, cursor.part)
    return StagedList(run.task.id, name, cursor.failed_count, staging.parse_entry)


def make_part_name(word: str, cursor: TransferCursor, number: int) -> str:
    """Return the name of a part's files in staging. The next run of a task starts its parts again."""
    return f"{word}-{cursor.attempt}-{cursor.round}-{number}"
