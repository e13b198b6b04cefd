"""What WebDAV bounds: bytes in storages, names in bodies, properties and locks."""

from __future__ import annotations

from pathlib import Path

from tests.contract.api import fixtures
from tests.contract.api.dav_client import Dav
from tests.disks import mount_small
from tests.service import Client


def test_put_into_full_storage_answers_507(admin: Client, dav: Dav, tmp_path: Path) -> None:
    """D1 of issue 25: it was 500."""
    with mount_small(tmp_path / "small", "1m") as small, fixtures.local(admin, small) as mount:
        answer = dav.send("PUT", f"{mount}/f", b"x" * (3 << 20))
        assert answer.status_code == 507 and "no space left" in answer.text
        assert [*small.iterdir()] == []
        assert dav.status("PUT", f"{mount}/f", b"x") == 201
