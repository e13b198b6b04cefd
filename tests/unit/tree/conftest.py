"""What the tests of the tree share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mangrove.core import runtime
from mangrove.core.runtime import Runtime
from tests.unit.tree.environment import TreeEnv


@pytest.fixture
def tree(records: None, tmp_path: Path) -> Iterator[TreeEnv]:
    """Empty tables and a runtime of its own; nothing is mounted."""
    with runtime.use(Runtime()):
        env = TreeEnv(tmp_path)
        try:
            yield env
        finally:
            env.close()
