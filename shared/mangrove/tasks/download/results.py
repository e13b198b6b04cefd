"""Enqueues the transfer of downloaded files from staging to their folder."""

from __future__ import annotations

import asyncio

from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem
from mangrove.drivers.base import list_all
from mangrove.identity.rights import Right
from mangrove.tasks.core import authorization, model, queue, staging
from mangrove.tasks.download.fetching import DownloadRun, get_stage
from mangrove.tasks.transfer.declaration import TransferSpec
from mangrove.tools.registry import SIMPLE_HTTP


async def resolve_target(run: DownloadRun) -> authorization.TargetAccess:
    """Return the folder of the download. Raise AccessDenied if the owner may not download into it any more."""
    caller = await authorization.authorize_caller(run.task, Right.OFFLINE_DOWNLOAD)
    return await authorization.resolve_target(caller, run.spec.target_dir, "")


async def chain_transfer(run: DownloadRun, policy: str) -> None:
    """Enqueue the transfer of the result: a single entry under its name, several into the folder itself."""
    target = await resolve_target(run)
    if await asyncio.to_thread(queue.resume_chained, get_stage(run)):
        return  # by a worker that died before it could save that; the transfer may have removed the files
    body = staging.get_path(get_stage(run), staging.BODY)
    arrived = await list_all(await staging.driver(), body)
    if not arrived:
        raise StorageProblem("nothing arrived")
    single = arrived[0].name if len(arrived) == 1 else ""
    spec = TransferSpec(
        source=body / single if single else body,
        target_dir=run.spec.target_dir,
        name=single,
        overwrite=True,
        delete_policy=policy,
    )
    name = model.format_staged_name(
        TreePath("/") / (single or staging.BODY), target.storage_path.mount.path, target.storage_path.path
    )
    size = sum(entry.size or 0 for entry in arrived)
    if run.spec.tool != SIMPLE_HTTP:
        run.view.status = "offline download completed, maybe transferring"
    await asyncio.to_thread(queue.chain, "offline_download_transfer", run.task, get_stage(run), name, spec, size)
    pass_checkpoint("download.chained")
