"""Enqueue the tasks for the rest of a request: one for each of a few entries, or one for all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.limits import limits
from mangrove.core.paths import TreePath
from mangrove.core.problems import Problem
from mangrove.records.tasks.model import Task
from mangrove.tasks.core import model, queue, staging
from mangrove.tasks.core.model import ManifestEntry, Spec
from mangrove.tasks.core.queue import TaskRequest
from mangrove.tasks.remove.declaration import RemoveSpec
from mangrove.tasks.transfer.declaration import TransferSpec
from mangrove.tree.access import PathAccess
from mangrove.tree.operations.plans import TransferItem, TransferRequest
from mangrove.tree.trash.entries import TrashItem

MAX_SINGLE_TASKS = 20  # of a request; more entries become the work of one task


async def enqueue(kind: str, access: PathAccess, request: TaskRequest) -> Task:
    """Enqueue a task for the caller."""
    return await asyncio.to_thread(queue.enqueue, kind, access.caller.user, request, access.caller.token_id)


async def enqueue_many(kind: str, access: PathAccess, requests: Iterable[TaskRequest]) -> list[Task]:
    """Enqueue tasks for the caller."""

    def enqueue_all() -> list[Task]:  # in a thread, since thousands of specifications would block the event loop
        return queue.enqueue_many(kind, access.caller.user, list(requests), access.caller.token_id)

    async with limits().task_requests.hold(access.caller.user.id):
        return await asyncio.to_thread(enqueue_all)


async def enqueue_list(
    kind: str,
    access: PathAccess,
    name: str,
    rows: Iterable[ManifestEntry],
    make_spec: Callable[[int], Spec],
    id: str = "",
) -> Task:
    """Enqueue a task over a list. `make_spec` is called with the number of rows. `id`: "" for a new one."""
    id = id or queue.make_id()
    async with limits().task_requests.hold(access.caller.user.id):
        try:
            spec = make_spec(await staging.store_requested(id, rows))
            pass_checkpoint("upload.staged")
        except BaseException:
            await asyncio.shield(staging.clear(id))
            raise
        try:
            return await enqueue(kind, access, TaskRequest(name, spec, id=id))
        except Problem:
            await staging.clear(id)  # no task will use the list
            raise


async def enqueue_removal(folder: PathAccess, names: Sequence[str]) -> Task:
    """Enqueue the task that removes entries of a folder."""

    def make_spec(count: int) -> RemoveSpec:
        return RemoveSpec(folder=folder.path, password=folder.password, count=count)

    mount, inner = folder.find_mount()
    name = model.format_removal_name("remove", mount.path, model.format_many(inner / names[0], len(names)))
    return await enqueue_list("move", folder, name, map(ManifestEntry, names), make_spec)


async def enqueue_restore(items: Sequence[TrashItem], overwrite: bool, password: str) -> Task:
    """Enqueue the task that restores entries of the trash."""
    folder, mount = items[0].access.parent, items[0].mount

    def make_spec(count: int) -> RemoveSpec:
        return RemoveSpec(folder=folder.path, password=password, count=count, restores=True, overwrite=overwrite)

    rows = (ManifestEntry(item.id) for item in items)
    name = model.format_removal_name(
        "restore", mount.path, model.format_many(TreePath(items[0].entry.path), len(items))
    )
    return await enqueue_list("move", folder, name, rows, make_spec)


async def enqueue_empty_folder_removal(folder: PathAccess) -> Task:
    """Enqueue the task that removes the folders below a folder that do not hold a file."""
    mount, inner = folder.find_mount()
    name = model.format_removal_name("remove_empty_directory", mount.path, inner)
    return await enqueue("move", folder, TaskRequest(name, RemoveSpec(folder=folder.path, password=folder.password)))


@dataclass(frozen=True, slots=True)
class TransferEnqueuer:
    """Enqueues what a request to move, copy or rename entries leaves for tasks."""

    request: TransferRequest

    async def enqueue(self, items: Sequence[TransferItem]) -> list[Task]:
        """Enqueue the tasks for the remaining items of the request."""
        if not items:
            return []
        if len(items) <= MAX_SINGLE_TASKS:
            return await enqueue_many(self.request.word, self.request.source_dir, map(self._make_request, items))
        groups = [[item for item in items if item.overwrite is replaces] for replaces in (False, True)]
        return [await self._enqueue_list(group) for group in groups if group]

    async def enqueue_flat(self) -> Task:
        """Enqueue the task that moves all files below the source."""
        source_dir, target_dir = self.request.source_dir, self.request.target_dir
        spec = self._make_spec(
            source=source_dir.path, target_dir=target_dir.path, overwrite=self.request.conflict.overwrite,
            selection="files",
        )  # fmt: skip
        name = self._make_name(source_dir.find_mount()[1], target_dir.find_mount()[1])
        return await enqueue(self.request.word, source_dir, TaskRequest(name, spec))

    def _make_request(self, item: TransferItem) -> TaskRequest:
        spec = self._make_spec(
            source=self.request.source_dir.find_mount()[0].path / item.path,
            target_dir=self.request.target_dir.find_mount()[0].path / item.target.parent,
            name=item.target.name,
            overwrite=self.request.conflict.overwrite,
        )
        return TaskRequest(self._make_name(item.path, item.target.parent), spec)

    def _make_spec(self, name: str = "", **fields: Any) -> TransferSpec:
        conflict = self.request.conflict
        return TransferSpec(
            name=name,
            password=self.request.source_dir.password,
            keep_existing=conflict.merge or conflict.skip,
            **fields,
        )

    def _make_name(self, path: str, folder: TreePath) -> str:
        word = "merge" if self.request.is_merging_copy else self.request.word
        source, target = (end.find_mount()[0].path for end in (self.request.source_dir, self.request.target_dir))
        return model.format_transfer_name(word, source, path, target, folder)

    async def _enqueue_list(self, items: Sequence[TransferItem]) -> Task:
        """Enqueue a task over items that share the permission to replace entries."""
        source_dir, target_dir = self.request.source_dir, self.request.target_dir
        source, target = source_dir.find_mount()[1], target_dir.find_mount()[1]
        has_targets = False

        def make_rows() -> Iterator[ManifestEntry]:
            nonlocal has_targets
            for item in items:
                row = ManifestEntry.of(item.path.below(source)[1:], item.entry, item.target.below(target)[1:])
                has_targets = has_targets or bool(row.target)
                yield row

        def make_spec(count: int) -> TransferSpec:
            return self._make_spec(
                source=source_dir.path, target_dir=target_dir.path, overwrite=items[0].overwrite,
                selection="renamed_list" if has_targets else "list", count=count, write_only=not target_dir.may_read(),
            )  # fmt: skip

        name = self._make_name(model.format_many(items[0].path, len(items)), target)
        return await enqueue_list(self.request.word, source_dir, name, make_rows(), make_spec)
