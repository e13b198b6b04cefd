"""One real records engine for the whole run; tables are emptied for each test that asks for `records`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import engine as engines


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("data")
    with engines.engine() as endpoint:
        engines.enter(folder, endpoint)
        engines.create_tables()
        yield endpoint


@pytest.fixture
def records(engine: str) -> None:
    """Empty tables."""
    from mangrove.records import counters, metas, sessions, settings, sshkeys, storages, unique, users

    models = (
        users.UserRecord, storages.StorageRecord, metas.MetaRecord, settings.SettingRecord, sshkeys.SshKeyRecord,
        sessions.SessionRecord, counters.Counter, unique.Claim,
    )  # fmt: skip
    for model in models:
        with model.batch_write() as batch:
            for item in list(model.scan()):
                batch.delete(item)
