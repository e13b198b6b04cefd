"""Named places in long work at which a test can end the process as SIGKILL does, to prove that the work survives it.

Only a process that was started with MANGROVE_KILL_AT looks: that is a file which holds the name of a place. The first
thread that reaches it removes the file and kills the process.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

NAMES = (
    "upload.staged",  # a body is received, its task not opened
    "queue.opened",  # a task is in the records, its machine not started
    "queue.chained",  # the same of a transfer that goes on with what another task brought
    "step.acquired",  # the lease is acquired, nothing done
    "step.worked",  # a slice is over, its end not saved
    "manifest.stored",  # a chunk of a list is in staging, its rows not counted
    "copy.intended",  # the record knows that a file is to be begun in parts
    "copy.started",  # it is begun, its token not saved
    "copy.ready",  # its token is saved, no part stored
    "copy.part",  # a part is stored and not saved
    "copy.parts",  # all parts are stored and saved
    "copy.finished",  # the file is at the target, and the record still speaks of its parts
    "copy.whole",  # a file that was stored in one go is not verified
    "move.batch",  # files are copied, the cursor not moved
    "move.verified",  # the file is at the target, and still at the source
    "move.removed",  # it is gone from the source, and the record does not know
    "move.tidied",  # an emptied folder is removed at the source
    "remove.batch",  # some entries of a list are removed, and the record does not know
    "trash.intended",  # the record says that an entry goes into the trash, and it is in its place
    "trash.moved",  # it is in the trash, its record not final
    "trash.kept",  # the file that is about to be replaced is in the trash
    "trash.replaced",  # it is replaced, its record not final
    "trash.deleting",  # entries of the trash are to be deleted, and still there
    "trash.restoring",  # the record says that an entry leaves the trash, and it is still there
    "trash.restored",  # it is in its place, the record not deleted
    "download.submitted",  # a tool has the address, its token is not saved
    "download.intended",
    "download.started",
    "download.part",
    "download.finished",  # the file is whole in staging, and the record still speaks of its parts
    "download.whole",  # the same of a file that came in one go
    "download.chained",  # the transfer is opened, and this task does not know it
    "extract.cached",  # the archive is in staging, the record does not know
    "extract.folders",
    "extract.member",
    "extract.chained",
    "index.planned",  # the walk's first folders are in staging, the record does not know
    "index.written",  # a slice's rows are files, and not in the index's store
    "index.stored",  # a file is there, and neither manifest nor record names it
    "index.folded",  # the new files are stored, the old index is the present one
    "index.committed",  # the new index is the present one, the old files are still there
    "index.swapped",  # they are gone; the marks and the task are still there
    "index.dropped",  # an index has no manifest any more, its files are still there
    "index.unmarked",  # the marks of what was read are gone, the task is still under way
    "settle.started",
    "settle.cleaned",  # what is not needed is gone, and the task still under way
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
        return  # none yet, or another thread is about to die
    os.kill(os.getpid(), signal.SIGKILL)
