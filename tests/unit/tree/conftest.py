"""Fixtures of the tree tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mangrove.core import runtime
from mangrove.core.aws import AwsSession
from mangrove.identity.passwords import Hasher
from mangrove.records.store.base import Connections
from mangrove.records.store.keys import Keyring
from tests.unit.tree.environment import TreeEnv


@pytest.fixture
def tree(records: None, tmp_path: Path) -> Iterator[TreeEnv]:
    """Empty tables and a runtime of its own, which shares what is costly; nothing is mounted."""
    with runtime.use(runtime.current().keep(AwsSession, Connections, Keyring, Hasher)):
        env = TreeEnv(tmp_path)
        try:
            yield env
        finally:
            env.close()
