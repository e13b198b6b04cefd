"""Operations that move, copy and rename entries. Each is checked as a whole before the first entry is changed.

Entries that a storage cannot handle within the request, or in time, are returned for a task.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice

from mangrove.core import deadlines
from mangrove.core.chunked import iterate_chunked, run_in_thread
from mangrove.core.concurrency import compute_pools
from mangrove.core.deadlines import TimeBudget, unlimited
from mangrove.core.paths import TreePath, check_name
from mangrove.core.patterns import InvalidPattern, Replacement
from mangrove.core.problems import (
    BadRequest,
    EntryExists,
    NameConflict,
    NotSupported,
    OutOfTime,
    StorageProblem,
)
from mangrove.drivers.base import Entry
from mangrove.identity.rights import Right
from mangrove.tree.access import PathAccess
from mangrove.tree.listing.listing import listings
from mangrove.tree.listing.opening import explain_folder_failure
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import batch_moves, journal
from mangrove.tree.operations.kept_rules import KeptRules
from mangrove.tree.operations.name_locks import lock_name
from mangrove.tree.operations.plans import (
    WORDS,
    OnConflict,
    Plan,
    TransferItem,
    TransferRequest,
    check_count,
    plan_renames,
    plan_transfer,
)

MAX_FILES_PER_FLAT_MOVE = 50_000  # of a request; a task moves more
MAX_PATTERN_LENGTH = 1000  # characters, of a pattern and of its template
PATTERN_SECONDS = 10.0  # for all names of a folder together


@dataclass(slots=True)
class Outcome:
    """The result of a plan. Items that are neither done nor left were skipped."""

    done: int = 0
    left: list[TransferItem] = field(default_factory=list)  # for a task
    is_whole: bool = True  # if False, nothing was done, and a task has to find the items


async def transfer(request: TransferRequest, budget: TimeBudget | None = None) -> Sequence[TransferItem]:
    """Move or copy entries. Return those that need a task."""
    plan = await plan_transfer(request, budget)
    return plan.items if plan.needs_task else (await _execute(plan, budget)).left


async def _execute(plan: Plan, budget: TimeBudget | None) -> Outcome:
    """Do everything that the driver can do within the request."""
    outcome, budget, position = Outcome(), budget or unlimited(), 0
    is_batching = plan.right is Right.MOVE and await batch_moves.can_replace_together(plan.source.driver)
    batches = _split(plan.items, is_batching)
    async for items in iterate_chunked(batches):
        if not budget.covers(position, len(plan.items)):
            outcome.left += plan.items[position:]
            break
        problems = await _execute_batch(plan, items)
        for item, problem in zip(items, problems, strict=False):
            if problem is None:
                outcome.done += 1
            elif isinstance(problem, NotSupported):
                outcome.left.append(item)
            elif not isinstance(problem, EntryExists) or item.overwrite:
                raise problem.with_prefix(f"{WORDS[plan.right]} [{item.name}]") from problem
            elif not plan.conflict.keeps_existing(item):
                raise NameConflict(f"file [{item.target.name}] exists")
        outcome.left += items[len(problems) :]
        position += len(items)
    return outcome


def _split(items: Sequence[TransferItem], is_batching: bool) -> Iterator[list[TransferItem]]:
    """Yield batches of files that may replace files. Every other item has a batch of its own."""
    for has_files, group in groupby(items, lambda item: is_batching and item.overwrite and not item.is_dir):
        while batch := list(islice(group, batch_moves.MAX_FILES_PER_BATCH if has_files else 1)):
            yield batch


async def _execute_batch(plan: Plan, items: Sequence[TransferItem]) -> Sequence[StorageProblem | None]:
    """Return the problem of each item, up to the first one that fails."""
    if len(items) > 1:
        pairs = [(plan.source.with_path(item.path), plan.source.with_path(item.target)) for item in items]
        return await batch_moves.replace(pairs, stops=True)
    try:
        await _execute_item(plan, items[0])
    except StorageProblem as problem:
        return [problem]
    return [None]


async def _execute_item(plan: Plan, item: TransferItem) -> None:
    source, target = plan.source.with_path(item.path), plan.source.with_path(item.target)
    driver, overwrite = plan.source.driver, item.overwrite
    if plan.right is Right.COPY:
        async with (
            journal.copy(source, target, is_folder=item.is_dir, replaces=overwrite),
            lock_name(target, overwrite=overwrite),
        ):
            await driver.copy(source.path, target.path, overwrite=overwrite, durable=plan.is_durable)
        return
    move = driver.move if plan.right is Right.MOVE else driver.rename
    async with (
        journal.move(source, target, is_folder=item.is_dir, replaces=overwrite) as change,
        lock_name(target, source, overwrite=overwrite),
    ):
        file = await move(source.path, target.path, overwrite=overwrite)
        if file is not None and not item.is_dir:
            change.set_moved(file)


async def rename(
    access: PathAccess, new_name: str, overwrite: bool, budget: TimeBudget | None = None
) -> Sequence[TransferItem]:
    """Rename a file or folder. Raise NameConflict if the name is taken and must not be overwritten.

    Otherwise as `rename_all`.
    """
    check_name(new_name)
    access.parent.require(Right.RENAME)
    if access.path == access.base or access.path in access.tree.table.by_path:
        raise StorageProblem("rename root folder is not allowed")
    return await rename_all(access.parent, {access.path.name: new_name}, overwrite, budget)


async def rename_all(
    folder: PathAccess, new_names: Mapping[str, str], overwrite: bool = False, budget: TimeBudget | None = None
) -> Sequence[TransferItem]:
    """Rename entries of a folder, old name to new name.

    With a `budget`, return those that need a task: the storage cannot rename them within the request, or the time is
    up. Without it, raise NotSupported for an entry that cannot be renamed within the request.
    """
    if not new_names:
        folder.require(Right.RENAME)
        return ()
    check_count(new_names)
    plan = await plan_renames(folder, new_names, overwrite, may_use_task=budget is not None)
    if not plan.source.driver.capabilities.rename:
        return plan.items
    outcome = await _execute(plan, budget)
    if outcome.left and budget is None:
        raise NotSupported
    return outcome.left


async def rename_by_pattern(
    folder: PathAccess, pattern: str, template: str, budget: TimeBudget | None = None
) -> Sequence[TransferItem]:
    """Rename every entry whose name matches the RE2 `pattern`; `template` is Go's (`$1`, `${name}`, `$$`).

    Otherwise as `rename_all`.
    """
    folder.require(Right.RENAME)
    folder.require_read()
    if len(pattern) > MAX_PATTERN_LENGTH or len(template) > MAX_PATTERN_LENGTH:
        raise BadRequest("the pattern is too long")
    try:
        replacement = await compute_pools().patterns.run(Replacement, pattern, template)
    except InvalidPattern as error:
        raise StorageProblem(f"error parsing regexp: {error}") from None
    try:
        listing = await folder.list_folder()
    except StorageProblem as problem:
        raise explain_folder_failure(folder, problem) from problem
    passes = folder.make_visibility_filter().passes
    steps = _find_new_names(listing.entries, passes, replacement)
    new_names = await run_in_thread(steps, compute_pools().patterns)
    return await rename_all(folder, new_names, budget=budget)


def _find_new_names(
    entries: Iterable[Entry], passes: Callable[[Entry], bool], replacement: Replacement
) -> Generator[None, None, dict[str, str]]:
    """Return the old and new names of the entries whose names match.

    Raise BadRequest for too many, or too long names.
    """
    new_names: dict[str, str] = {}
    end = time.monotonic() + PATTERN_SECONDS
    for entry in entries:
        new_name = replacement.apply(entry.name) if passes(entry) else None
        if new_name is not None:
            new_names[entry.name] = new_name
            check_count(new_names)
        yield
        if time.monotonic() > end:
            raise BadRequest(f"the pattern takes more than {PATTERN_SECONDS:.0f} seconds for the names of this folder")
    return new_names


async def move_files(
    source_dir: PathAccess, target_dir: PathAccess, policy: str, budget: TimeBudget | None = None
) -> Outcome:
    """Move every file of a tree into one folder. `policy`: cancel, skip or overwrite.

    With `cancel`, a taken name, or two files of one name, refuse the whole request before the first file is moved.

    With a `budget` the outcome has the rest for a task. It is not whole if there are more than MAX_FILES_PER_FLAT_MOVE
    files, or if listing them takes too long. Without a budget, NotSupported means that it needs a task.
    """
    if policy not in ("cancel", "skip", "overwrite"):
        raise BadRequest("conflict_policy must be cancel, skip or overwrite")
    source_dir.require_read().require(Right.MOVE)
    target_dir.require_read().require(Right.MOVE)
    source = await source_dir.locate("src")
    target = await target_dir.locate("dst")
    if source.mount.path != target.mount.path or not source.driver.capabilities.move:
        raise NotSupported
    target = source.with_path(target.path)
    files: list[TransferItem] = []
    try:
        with deadlines.limit((budget or unlimited()).get_seconds()):
            entries = (await listings().get(target, refresh=True)).entries
            taken_names = {entry.name async for entry in iterate_chunked(entries)}
            async for item in _walk_files(source_dir, source, target.path):
                files.append(item)
                if budget is not None and len(files) > MAX_FILES_PER_FLAT_MOVE:
                    return Outcome(is_whole=False)
    except StorageProblem as problem:
        raise explain_folder_failure(target_dir, problem) from problem
    except OutOfTime:
        if budget is None:
            raise
        return Outcome(is_whole=False)
    items = await _resolve_conflicts(files, taken_names, policy, target_dir)
    await _require_kept_rules(source_dir, source, target_dir, items)
    plan = Plan(Right.MOVE, source, items, OnConflict(skip=policy == "skip"))
    outcome = await _execute(plan, budget)
    if outcome.left and budget is None:
        raise NotSupported
    return outcome


async def _resolve_conflicts(
    files: Sequence[TransferItem], taken_names: set[str], policy: str, target_dir: PathAccess
) -> list[TransferItem]:
    """Return the items to move. Raise NameConflict for a taken name that the policy does not allow."""
    items: list[TransferItem] = []
    names = taken_names | set(target_dir.tree.table.find_virtual_folders(target_dir.path))
    async for item in iterate_chunked(files):
        if item.path == item.target:
            continue
        name = item.target.name
        target = target_dir.child(name)
        is_taken = name in names or not target.may_read()  # the answer is the same for a hidden and a taken name
        may_replace = policy == "overwrite" and target_dir.may_replace(target) and not target.is_mount_or_ancestor()
        if is_taken and policy == "skip":
            continue
        if is_taken and not may_replace:
            raise NameConflict(f"file [{name}] exists")
        names.add(name)
        items.append(replace(item, overwrite=may_replace))
    return items


async def _require_kept_rules(
    source_dir: PathAccess, source: StoragePath, target_dir: PathAccess, items: Sequence[TransferItem]
) -> None:
    """Raise RuleLeftBehind if a rule for one of the files, and not for a folder, protects it and would stay behind."""
    kept_rules = KeptRules.of(source_dir)
    async for item in iterate_chunked(items):
        path, new_path = source_dir.path / item.path.below(source.path), target_dir.path / item.target.name
        await kept_rules.require(path, source.with_path(item.path), new_path, source.with_path(item.target))


async def _walk_files(access: PathAccess, folder: StoragePath, target: TreePath) -> AsyncIterator[TransferItem]:
    """Yield every file below a folder that the caller may see and move away."""
    visibility = access.make_visibility_filter()
    if not access.may_write():
        return
    subfolders: list[str] = []
    ruled_names = {name for decision in access.decisions for name in access.tree.rules.find_names_below(decision.path)}
    async for batch in folder.driver.list(folder.path):
        deadlines.check()
        async for entry in iterate_chunked(batch):
            if not visibility.passes(entry):
                continue
            if entry.is_dir:
                subfolders += [] if entry.is_link else [entry.name]
            elif entry.name not in ruled_names or _may_take(access.child(entry.name)):
                yield TransferItem(entry.name, folder.path / entry.name, target / entry.name, entry)
    async for name in iterate_chunked(subfolders):
        subfolder = access.child(name)
        if not subfolder.is_mount_or_ancestor() and subfolder.may_read():
            async for item in _walk_files(subfolder, folder.child(name), target):
                yield item


def _may_take(file: PathAccess) -> bool:
    """True if the caller may move away a file that has a rule of its own."""
    return file.may_read() and file.may_write()
