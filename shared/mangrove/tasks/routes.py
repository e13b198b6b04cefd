"""Both ends of a transfer, as the user who opened the task may use them now."""

from __future__ import annotations

from dataclasses import dataclass

from mangrove.drivers.base import Removes
from mangrove.identity.rights import Right
from mangrove.paths import TreePath
from mangrove.problems import NotSupported
from mangrove.tasks import authorization, staging
from mangrove.tasks.authorization import Target
from mangrove.tasks.endpoints import Endpoint
from mangrove.tasks.specs import TransferCursor, TransferSpec
from mangrove.tasks.steps import Run
from mangrove.tree.access import PathAccess

RIGHTS = {
    "copy": Right.COPY,
    "move": Right.MOVE,
    "upload": Right.WRITE,
    "offline_download_transfer": Right.OFFLINE_DOWNLOAD,
    "decompress_upload": Right.DECOMPRESS,
}


@dataclass(frozen=True, slots=True)
class TransferRoute:
    """`access` to the source in the tree; None when the source is staged. `overwrite`: files may be replaced."""

    source: Endpoint
    target: Target
    access: PathAccess | None
    overwrite: bool


async def find_route(run: Run[TransferSpec, TransferCursor]) -> TransferRoute:
    """The ends of a transfer; Denied and its like when its owner may not use them."""
    spec = run.spec
    caller = await authorization.authorize_caller(run.task, RIGHTS[run.task.kind])
    target = await authorization.resolve_target(caller, spec.target_dir, spec.name, spec.password)
    overwrite = spec.overwrite and target.may_replace()
    if spec.staged:
        return TransferRoute(Endpoint(await staging.driver(), TreePath(spec.staged)), target, None, overwrite)
    source = await authorization.access_path(caller, spec.source, spec.password)
    if caller.declared_right is Right.MOVE:
        source.with_path(source.path.parent).require(Right.MOVE)
    source.require_export(caller.declared_right is Right.MOVE)
    located = await source.locate()
    if caller.declared_right is Right.MOVE and not isinstance(located.driver, Removes):
        raise NotSupported
    return TransferRoute(Endpoint(located.driver, located.path, located.mount), target, source, overwrite)
