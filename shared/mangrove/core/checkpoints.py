"""Named checkpoints in long work. A test can end the process there as SIGKILL does, to prove that the work survives it.

Only a process that was started with MANGROVE_KILL_AT checks them: that is a file with the name of a checkpoint. The
first thread that reaches it removes the file and kills the process.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

NAMES = (
    "upload.staged",  # a body is received, its task is not enqueued
    "queue.opened",  # a task is in the records, its machine is not started
    "queue.chained",  # the same for a transfer that continues with the result of another task
    "step.acquired",  # the lease is acquired, nothing is done
    "step.worked",  # a step is over, its end is not saved
    "manifest.stored",  # a chunk of a list is in staging, its rows are not counted
    "copy.intended",  # the record says that a file will be stored in parts
    "copy.started",  # it is started, its token is not saved
    "copy.ready",  # its token is saved, no part is stored
    "copy.part",  # a part is stored and not saved
    "copy.parts",  # all parts are stored and saved
    "copy.finished",  # the file is at the target, and the record still has its parts
    "copy.whole",  # a file that was stored in one request is not verified
    "move.batch",  # files are copied, the cursor is not advanced
    "move.verified",  # the file is at the target, and still at the source
    "move.removed",  # it is removed from the source, and the record does not have that
    "move.tidied",  # an emptied folder is removed at the source
    "remove.batch",  # some entries of a list are removed, and the record does not have that
    "trash.intended",  # the record says that an entry goes into the trash, and it is in its place
    "trash.moving",  # some files of an entry are in the trash or back, others are not
    "trash.moved",  # it is in the trash, its record not final
    "trash.kept",  # the file that is about to be replaced is in the trash
    "trash.replaced",  # it is replaced, its record not final
    "trash.deleting",  # entries of the trash are to be deleted, and still there
    "trash.restoring",  # the record says that an entry leaves the trash, and it is still there
    "trash.restored",  # it is in its place, the record not deleted
    "download.submitted",  # a tool has the URL, its token is not saved
    "download.intended",
    "download.started",
    "download.part",
    "download.finished",  # the file is complete in staging, and the record still has its parts
    "download.whole",  # the same for a file that arrived in one request
    "download.chained",  # the transfer is enqueued, and this task does not have that
    "extract.cached",  # the archive is in staging, the record does not have that
    "extract.folders",
    "extract.member",
    "extract.chained",
    "compress.part",  # a part of an archive is in staging, the record does not have that
    "compress.packed",  # the archive is complete in staging and saved
    "compress.stored",  # it is in the tree, the step is not over
    "index.planned",  # the walk's first folders are in staging, the record does not have that
    "index.written",  # a step's rows are files, and not in the index's store
    "index.stored",  # a file exists, and neither manifest nor record names it
    "index.folded",  # the new files are stored, the old index is the present one
    "index.committed",  # the new index is the present one, the old files still exist
    "index.swapped",  # they are removed; the changes and the task still exist
    "index.dropped",  # an index has no manifest any more, its files still exist
    "index.unmarked",  # the changes that were merged are removed, the task is still running
    "settle.started",
    "settle.cleaned",  # unneeded files are removed, and the task is still running
    "settle.done",
)

_ORDERS = os.environ.get("MANGROVE_KILL_AT", "")


def pass_checkpoint(name: str) -> None:
    """Mark that the work has reached the checkpoint `name`."""
    if _ORDERS:
        _kill_if_ordered(name)


def _kill_if_ordered(name: str) -> None:
    assert name in NAMES, name
    orders = Path(_ORDERS)
    try:
        if orders.read_text() != name:
            return
        orders.unlink()
    except FileNotFoundError:
        return  # none yet, or another thread is about to kill the process
    os.kill(os.getpid(), signal.SIGKILL)
