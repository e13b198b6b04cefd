"""Named places in long work at which a test can end the process as SIGKILL does, to prove that the work survives it.

Only a process that was started with MANGROVE_KILL_AT looks: that is a file which holds the name of a place. Whoever
comes by there removes the file and dies.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

NAMES = (
    "upload.staged",  # a body is received, its task not opened
    "board.opened",  # a task is in the records, its machine not started
    "board.handed",  # the same of a task that goes on with what another one brought
    "step.held",  # the lease is taken, nothing done
    "step.worked",  # a slice is over, its end not kept
    "manifest.stored",  # a chunk of a list is in staging, its rows not counted
    "carry.intended",  # the record knows that a file is to be begun in parts
    "carry.begun",  # it is begun, its token not kept
    "carry.ready",  # its token is kept, no part stored
    "carry.part",  # a part is stored and not kept
    "carry.parts",  # all parts are stored and kept
    "carry.finished",  # the file stands at the target, and the record still speaks of its parts
    "carry.whole",  # a file that was stored in one go is not verified
    "move.batch",  # files are carried, the cursor not moved
    "move.verified",  # the file is at the target, and still at the source
    "move.removed",  # it is gone from the source, and nobody noted it
    "move.tidied",  # an emptied folder is taken away from the source
    "download.asked",  # a tool has the address, its token is not kept
    "download.intended",
    "download.begun",
    "download.part",
    "download.finished",  # the file is whole in staging, and the record still speaks of its parts
    "download.whole",  # the same of a file that came in one go
    "download.handed",  # the transfer is opened, and this task does not know it
    "unpack.cached",  # the archive is in staging, not noted
    "unpack.folders",
    "unpack.member",
    "unpack.handed",
    "settle.begun",
    "settle.cleaned",  # what is not needed is gone, and the task still under way
    "settle.done",
)

_ORDERS = os.environ.get("MANGROVE_KILL_AT", "")


def reached(name: str) -> None:
    """The work has come to the place `name` of NAMES."""
    if _ORDERS:
        _obey(name)


def _obey(name: str) -> None:
    assert name in NAMES, name
    orders = Path(_ORDERS)
    try:
        if orders.read_text() != name:
            return
        orders.unlink()
    except FileNotFoundError:
        return  # none yet, or another thread is about to die
    os.kill(os.getpid(), signal.SIGKILL)
