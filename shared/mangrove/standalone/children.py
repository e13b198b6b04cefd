"""What a child process runs before its program. All is looked up beforehand: between fork and exec, no lock that
another thread had may be waited for."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Sequence

PR_SET_PDEATHSIG = 1


def make_start(namespaces: Sequence[int] = ()) -> Callable[[], None] | None:
    """What a child runs first: to enter the namespaces of these handles, and to end with the thread that started it,
    also when that is killed."""
    if sys.platform != "linux":
        return None
    library = ctypes.PyDLL(None)
    parent, set_death_signal, set_namespace = os.getpid(), library.prctl, library.setns
    get_parent, leave = os.getppid, os._exit

    def start() -> None:
        for handle in namespaces:
            if set_namespace(handle, 0):
                leave(1)
        set_death_signal(PR_SET_PDEATHSIG, signal.SIGKILL)
        if get_parent() != parent:
            leave(1)

    return start
