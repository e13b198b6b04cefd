"""Both ends of a transfer, as the user who opened the task may use them now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mangrove.core.paths import TreePath
from mangrove.core.problems import NotSupported, Problem
from mangrove.identity.rights import Right
from mangrove.tasks.core import authorization, manifest, staging
from mangrove.tasks.core.authorization import Target
from mangrove.tasks.core.endpoints import Endpoint
from mangrove.tasks.core.registry import KINDS
from mangrove.tasks.core.steps import Run
from mangrove.tasks.transfer.declaration import TransferCursor, TransferSpec
from mangrove.tree.access import PathAccess


@dataclass(frozen=True, slots=True)
class TransferRoute:
    """`access` to the source in the tree; None when the source is staged. `overwrite`: files may be replaced.

    `listed`: only some entries below the source are meant. `names`: the paths that some of these get below the target,
    by their own. `is_flat`: each is to be right in the target.
    """

    source: Endpoint
    target: Target
    access: PathAccess | None
    overwrite: bool
    is_move: bool = False
    listed: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    is_flat: bool = False

    def find_target(self, path: str) -> Endpoint:
        """Where an entry below the source goes."""
        return self.target.endpoint / self._map(path)

    @property
    def is_renaming(self) -> bool:
        """Whether files of one folder may go to several."""
        return self.is_flat or bool(self.names)

    def find_paths(self, path: str) -> tuple[TreePath, TreePath]:
        """Where an entry below the source is in its storage, and where it goes in the other one."""
        below = TreePath(path)
        goes = self._map(path) if self.is_renaming else below
        return self.source.path / below, self.target.endpoint.path / goes

    def _map(self, path: str) -> str:
        """The path below the target of one below the source: its own, or what the nearest folder above it is given."""
        if self.is_flat:
            return path.rpartition("/")[2]
        if not self.names:
            return path
        head, tail = path, ""
        while head and head not in self.names:
            head, _, name = head.rpartition("/")
            tail = f"/{name}{tail}"
        return self.names[head] + tail if head else path

    def find_refusal(self, path: str) -> Problem | None:
        """Why an entry may not go there; None when it may. Of a list each entry is judged by itself."""
        refusal = self.target.find_refusal(self._map(path))
        if refusal is not None or not self.listed or self.access is None:
            return refusal
        try:
            self.access.child(path).require_export(self.is_move)
        except Problem as problem:
            return problem
        return None


async def find_route(run: Run[TransferSpec, TransferCursor]) -> TransferRoute:
    """The ends of a transfer; AccessDenied and its like when its owner may not use them."""
    spec, is_move = run.spec, run.task.kind == "move"
    kind = KINDS[run.task.kind]
    right = Right.RENAME if is_move and spec.is_rename else kind.right
    caller = await authorization.authorize_caller(run.task, right)
    target = await authorization.resolve_target(caller, spec.target_dir, spec.name, spec.password)
    overwrite = spec.overwrite and target.may_replace()
    if kind.is_staged:
        return TransferRoute(Endpoint(await staging.driver(), TreePath(spec.source)), target, None, overwrite)
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
    names = await manifest.read_names(run.task.id, spec.count) if spec.selection == "renamed_list" else {}
    end = Endpoint(storage_path.driver, storage_path.path, storage_path.mount)
    return TransferRoute(end, target, source, overwrite, is_move, spec.is_listed, names, spec.selection == "files")
