"""Changes by this service are in the next search, and removed entries are not, whatever the index has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.contract.api import fixtures
from tests.contract.api.search_client import build_index, find
from tests.contract.api.transfer_client import TransferClient, send
from tests.support.service import Client
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("search")  # one service


@pytest.fixture(scope="module")
def other(admin: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A storage with a folder in the index; its mount path."""
    root: Path = tmp_path_factory.mktemp("other")
    (root / "old" / "deep").mkdir(parents=True)
    (root / "old" / "deep" / "ripe fig.txt").write_text("fig")
    with fixtures.local(admin, root) as mounted:
        build_index(admin)
        assert find(admin, "fig", mounted) == [f"{mounted}/old/deep/ripe fig.txt"]
        yield mounted


def test_put_made_renamed_and_removed(admin: Client, other: str) -> None:
    fixtures.fill(admin, other, "new/quince.txt", "new/shelf/")
    assert find(admin, "quince", other) == [f"{other}/new/quince.txt"]
    assert find(admin, "shelf", other, scope=1) == [f"{other}/new/shelf"]
    admin.ok("/api/fs/rename", path=f"{other}/new/quince.txt", name="medlar.txt")
    assert find(admin, "quince", other) == [] and find(admin, "medlar", other) == [f"{other}/new/medlar.txt"]
    admin.ok("/api/fs/rename", path=f"{other}/new", name="newer")
    assert find(admin, "medlar", other) == [f"{other}/newer/medlar.txt"]
    assert find(admin, "shelf", f"{other}/newer") == [f"{other}/newer/shelf"]
    admin.ok("/api/fs/remove", dir=other, names=["newer"])
    assert find(admin, "medlar", other) == find(admin, "newer", other) == find(admin, "shelf", other) == []


def test_a_folder_that_is_renamed_takes_what_the_index_knows_along(admin: Client, other: str) -> None:
    admin.ok("/api/fs/rename", path=f"{other}/old", name="older")
    assert find(admin, "fig", other) == [f"{other}/older/deep/ripe fig.txt"]
    assert find(admin, "old", other) == [f"{other}/older"]
    admin.ok("/api/fs/rename", path=f"{other}/older", name="old")
    assert find(admin, "fig", other) == [f"{other}/old/deep/ripe fig.txt"]


def test_folder_restored_from_the_trash_is_found_with_its_content(admin: Client, tmp_path: Path) -> None:
    with fixtures.local(admin, tmp_path, addition={"trash_days": 30}) as mounted:
        build_index(admin)
        fixtures.fill(admin, mounted, "orchard/plum.txt", "orchard/row/damson.txt", "orchard/empty/")
        admin.ok("/api/fs/remove", dir=mounted, names=["orchard"])
        assert find(admin, "damson", mounted) == find(admin, "plum", mounted) == []
        admin.ok("/api/fs/trash/restore", dir=mounted, names=["orchard"])
        assert find(admin, "damson", mounted) == [f"{mounted}/orchard/row/damson.txt"]
        assert find(admin, "plum", f"{mounted}/orchard") == [f"{mounted}/orchard/plum.txt"]
        assert find(admin, "empty", mounted) == [f"{mounted}/orchard/empty"]


def test_moved(admin: Client, other: str) -> None:
    fixtures.fill(admin, other, "from/cherry/one.txt", "to/")
    pair = {"src_dir": f"{other}/from", "dst_dir": f"{other}/to", "names": ["cherry"]}
    admin.ok("/api/fs/move", **pair)
    assert find(admin, "cherry", other) == [f"{other}/to/cherry"]
    assert find(admin, "one", other) == [f"{other}/to/cherry/one.txt"]
    renamed = [{"src_name": "one.txt", "new_name": "two.txt"}]
    admin.ok("/api/fs/batch_rename", src_dir=f"{other}/to/cherry", rename_objects=renamed)
    assert find(admin, "one", other) == [] and find(admin, "two", other) == [f"{other}/to/cherry/two.txt"]
    admin.ok("/api/fs/remove", dir=other, names=["from", "to"])
    assert find(admin, "cherry", other) == []


@pytest.mark.parametrize("kind", ["upload", "copy", "move"])
def test_what_a_task_stores_is_found_when_it_is_done(transfers: TransferClient, kind: str) -> None:
    name = f"{uuid4().hex} by {kind}.txt"
    assert find(transfers.client, name) == []
    if kind != "upload":
        upload = send(transfers.client, "put", f"{transfers.folder}/{name}", b"content", prefix="/openlist")
        transfers.wait_for("upload", upload["data"]["task"]["id"])  # else it may store the source again after a move
    transfers.wait_for(kind, transfers.start(kind, name))

    def is_found() -> bool:
        paths = find(transfers.client, name)
        return f"{transfers.mount}/{name}" in paths and (f"{transfers.folder}/{name}" in paths) is (kind == "copy")

    wait_until(is_found)  # a task does not wait for a log that writes slowly
