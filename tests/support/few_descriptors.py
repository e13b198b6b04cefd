"""`python -m tests.support.few_descriptors`: the service where no process may have more than 256 open files."""

from __future__ import annotations

import resource
import sys

from mangrove.standalone.__main__ import main

FILES = 256

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    sys.exit(main())
