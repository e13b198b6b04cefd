"""Changes by other programs in a Local storage with `watch_disk`, over HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.contract.api import fixtures
from tests.contract.api.event_client import follow
from tests.support.service import Client, Service, run_forked
from tests.support.waiting import wait_until

WATCHED = {"watch_disk": True}


def read_log(service: Service) -> str:
    return (service.data.parent / f"{service.data.name}.log").read_text()


@contextmanager
def watched(service: Service, admin: Client, root: Path) -> Iterator[str]:
    """A storage whose disk is watched."""
    before = len(read_log(service))
    with fixtures.local(admin, root, addition=WATCHED) as mount:
        wait_until(lambda: '"message":"disk is watched"' in read_log(service)[before:])
        yield mount


def test_change_by_another_program_is_reported_within_a_second(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    with run_forked(tmp_path / "data", MANGROVE_PAGE="none", MANGROVE_PROCESSES="2") as service:
        admin = service.client()
        with watched(service, admin, root) as mount:
            with follow(admin, mount) as events, follow(admin, f"{mount}/sub") as events_below:
                (root / "a.txt").write_text("a")
                assert events.wait_for("folder") == {"path": mount}
                (root / "sub" / "b.txt").write_text("b")
                assert events_below.wait_for("folder") == {"path": f"{mount}/sub"}
                (root / "new").mkdir()
                assert events.wait_for("folder") == {"path": mount}
            assert admin.names(mount) == ["a.txt", "new", "sub"]


def test_file_changed_in_place_has_its_new_size(service: Service, admin: Client, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    with watched(service, admin, tmp_path) as mount:
        time.sleep(0.1)  # the folder is old enough for its time to be trusted
        assert admin.ok("/api/fs/list", path=mount)["content"][0]["size"] == 1
        with (tmp_path / "a.txt").open("a") as file:
            file.write("bc")

        def is_new() -> bool:
            return bool(admin.ok("/api/fs/list", path=mount)["content"][0]["size"] == 3)

        wait_until(is_new)


def test_search_finds_a_file_of_another_program(service: Service, admin: Client, tmp_path: Path) -> None:
    (tmp_path / "first.txt").write_text("x")
    with (
        fixtures.settings(admin, search_index="database", auto_update_index="true"),
        watched(service, admin, tmp_path) as mount,
    ):

        def find(name: str) -> bool:
            answer = admin.post("/api/fs/search", parent=mount, keywords=name, scope=0, page=1, per_page=10)
            return answer["code"] == 200 and bool(answer["data"]["content"])

        wait_until(lambda: find("first"))
        (tmp_path / "second.txt").write_text("x")
        wait_until(lambda: find("second"))
        (tmp_path / "second.txt").unlink()
        wait_until(lambda: not find("second"))


def test_storage_that_is_mounted_elsewhere_is_watched_there(service: Service, admin: Client, tmp_path: Path) -> None:
    with watched(service, admin, tmp_path) as mount:
        storages = admin.get("/api/admin/storage/list")["data"]["content"]
        storage = next(row for row in storages if row["mount_path"] == mount)
        before = len(read_log(service))
        admin.ok("/api/admin/storage/update", **storage | {"mount_path": f"{mount}-moved"})
        wait_until(lambda: '"message":"disk is watched"' in read_log(service)[before:])
        with follow(admin, f"{mount}-moved") as events:
            (tmp_path / "a.txt").write_text("a")
            assert events.wait_for("folder") == {"path": f"{mount}-moved"}
