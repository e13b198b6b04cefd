"""The service, asked to end while its process forks: SIGTERM arrives during fork number `SIGNALLED_FORK`."""

from __future__ import annotations

import os
import signal
import sys
from itertools import count

from mangrove.standalone.__main__ import main

if __name__ == "__main__":
    forks, signalled = count(1), int(os.environ["SIGNALLED_FORK"])

    def interrupt() -> None:
        if next(forks) == signalled:
            print("signalled fork", file=sys.stderr)
            os.kill(os.getpid(), signal.SIGTERM)

    os.register_at_fork(after_in_parent=interrupt)
    sys.exit(main())
