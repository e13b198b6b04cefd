"""`python -m tests.support.soft_descriptors`: the service, started with a low limit of open files that it may raise."""

from __future__ import annotations

import resource
import sys

from mangrove.standalone.__main__ import main
from tests.support.few_descriptors import FILES

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    sys.exit(main())
