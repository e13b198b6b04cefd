"""The service of these tests: one, with its SFTP door open."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.protocol.protocols.people import Place, make_addition
from tests.servers import free_port, wait_for
from tests.support.service import run_forked


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("sftp")
    root = folder / "root"
    root.mkdir()
    with run_forked(folder / "data") as service:
        admin = service.client()
        admin.ok("/api/admin/storage/create", mount_path="/disk", driver="Local", addition=make_addition(root))
        place = Place(service, admin, free_port(), root, folder)
        place.save_settings(sftp_listen=f"127.0.0.1:{place.port}", hide_storage_details="false")
        wait_for(place.port)
        yield place
