"""Changes by other programs are in search after a listing, without another run of the index."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.api import fixtures
from tests.contract.api.search_client import build_index, find
from tests.contract.api.task_client import wait_until
from tests.support.service import Client

pytestmark = pytest.mark.xdist_group("search")  # one service


def test_a_listing_corrects_the_index(admin: Client, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "damson.txt").write_text("x")
    with fixtures.local(admin, tmp_path) as mounted:
        build_index(admin)
        assert find(admin, "damson", mounted) == [f"{mounted}/kept/damson.txt"]
        (tmp_path / "kept" / "damson.txt").rename(tmp_path / "kept" / "bullace.txt")
        (tmp_path / "made" / "below").mkdir(parents=True)
        (tmp_path / "made" / "below" / "greengage.txt").write_text("x")
        for folder in (mounted, f"{mounted}/kept"):
            admin.ok("/api/fs/list", path=folder)
        wait_until(lambda: find(admin, "bullace", mounted) == [f"{mounted}/kept/bullace.txt"])
        assert find(admin, "damson", mounted) == []
        wait_until(lambda: find(admin, "greengage", mounted) == [f"{mounted}/made/below/greengage.txt"])
