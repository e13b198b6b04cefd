"""The service of these tests: one, with its SFTP door open."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.protocol.protocols.people import Place, open_place
from tests.support.service import run_forked


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("sftp")
    with run_forked(folder / "data") as service:
        place = open_place(service, folder)
        place.save_settings(hide_storage_details="false")
        yield place
