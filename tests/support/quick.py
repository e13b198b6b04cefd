"""The service with cheap hashes of passwords: `python -m tests.support.quick serve …`.

Tests make some thousand users and sign in as each: a hash as it is stored takes longer than most requests. The
descriptions of the services of AWS are read once.
"""

from __future__ import annotations

import sys

from argon2 import PasswordHasher

from mangrove.identity import passwords
from mangrove.standalone.__main__ import main
from tests.support import service_models


class QuickHasher(passwords.Hasher):
    def __init__(self) -> None:
        super().__init__()
        self.argon2 = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


def prepare() -> None:
    """Let this process make cheap hashes, and share the descriptions."""
    passwords.Hasher = QuickHasher  # type: ignore[misc]
    service_models.share()


if __name__ == "__main__":
    prepare()
    sys.exit(main())
