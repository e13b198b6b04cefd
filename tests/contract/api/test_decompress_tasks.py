"""Archives unpacked over HTTP: tasks that are retried, cancelled, deleted or killed midway."""

from __future__ import annotations

import json
import os
import re
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from tests.contract.api import fixtures
from tests.contract.api.decompress_client import KIND, MIB, ROUTE, UPLOAD, write_file
from tests.contract.api.task_client import DECOMPRESS, Row, TaskClient, read_files, wait_until
from tests.support import origin
from tests.support.origin import Origin, Request
from tests.support.service import Client, run_forked
from tests.unit.archives.packing import zipped


@pytest.fixture(scope="module")
def web() -> Iterator[Origin]:
    with origin.origin() as made:
        yield made


class Slow:
    """A page that gives ranges of `content`, those from `at` on only when it is told to `go`."""

    def __init__(self, content: bytes, at: int) -> None:
        self.content = content
        self.at = at
        self.is_requested = threading.Event()
        self.go = threading.Event()

    def __call__(self, request: Request) -> None:
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("range", ""))
        assert match
        start, stop = int(match[1]), int(match[2]) + 1
        if self.at <= start < len(self.content) - MIB:  # the directory is at the end
            self.is_requested.set()
            assert self.go.wait(120)
        told = f"bytes {start}-{stop - 1}/{len(self.content)}"
        request.head(206, {"content-range": told, "content-length": stop - start})
        request.wfile.write(self.content[start:stop])


HEAVY = {name: os.urandom(6 * MIB) for name in ("first", "second", "third", "last")}


def serve_slowly(web: Origin) -> tuple[Slow, str]:
    """An archive of HEAVY that is given as far as its third file; a UrlTree with it as x.zip."""
    page = Slow(zipped(HEAVY, zipfile.ZIP_STORED), 13 * MIB)
    url = web.at(f"/{uuid4().hex}/x.zip", page)
    return page, f"x.zip:{len(page.content)}:1600000000:{url}"


def test_a_task_fails_and_is_retried_when_the_archive_is_right(owner: TaskClient) -> None:
    write_file(owner, "x.zip", b"not yet")
    (id,) = owner.unpack("x.zip")
    assert owner.wait_for(KIND, id)["state"] == 7
    write_file(owner, "x.zip", zipped({"f": b"at last"}))
    owner.ask("retry", KIND, id)
    row = owner.wait_for(KIND, id)
    assert (row["state"], row["error"]) == (2, "")
    assert [task["state"] for task in owner.wait_for_all(UPLOAD)] == [2]
    assert read_files(owner.root) == {"f": b"at last"}


def test_an_archive_that_goes_before_the_task_begins_fails_it(owner: TaskClient, admin: Client) -> None:
    write_file(owner, "x.zip", zipped({"f": b"x"}))
    with fixtures.settings(admin, decompress_download_task_threads_num="0"):
        (id,) = owner.unpack("x.zip")
        (owner.disk / "x.zip").unlink()
    row = owner.wait_for(KIND, id)
    assert (row["state"], row["error"]) == (7, "object not found")


def test_a_cancelled_task_leaves_nothing_and_can_be_retried(owner: TaskClient, admin: Client, web: Origin) -> None:
    page, structure = serve_slowly(web)
    with fixtures.mount(admin, "UrlTree", addition={"url_structure": structure, "allowed_hosts": "127.0.0.1"}) as tree:
        (id,) = owner.unpack("x.zip", src_dir=tree)
        assert page.is_requested.wait(120)
        wait_until(lambda: f"{id}.0/body/first" in owner.list_staged())
        owner.ask("cancel", KIND, id)
        row = owner.wait_for(KIND, id)
        assert (row["state"], row["error"]) == (4, "context canceled")
        assert not [path for path in owner.list_staged() if path.startswith(id)]
        assert owner.wait_for_all(UPLOAD) == [] and read_files(owner.root) == {}
        page.go.set()
        owner.ask("retry", KIND, id)
        assert owner.wait_for(KIND, id)["state"] == 2
        assert [row["state"] for row in owner.wait_for_all(UPLOAD)] == [2]
    assert read_files(owner.root) == HEAVY


def test_a_task_that_is_deleted_under_way_leaves_nothing(owner: TaskClient, admin: Client, web: Origin) -> None:
    page, structure = serve_slowly(web)
    with fixtures.mount(admin, "UrlTree", addition={"url_structure": structure, "allowed_hosts": "127.0.0.1"}) as tree:
        (id,) = owner.unpack("x.zip", src_dir=tree)
        assert page.is_requested.wait(120)
        owner.ask("delete", KIND, id)
        staging = owner.service.data / "staging"
        wait_until(lambda: not list(staging.glob(f"{id}*")))
        page.go.set()
    assert owner.wait_for_all(KIND) == owner.wait_for_all(UPLOAD) == []
    assert read_files(owner.root) == {}


def test_who_loses_the_right_midway_gets_nothing(owner: TaskClient, admin: Client, web: Origin) -> None:
    page, structure = serve_slowly(web)
    with fixtures.mount(admin, "UrlTree", addition={"url_structure": structure, "allowed_hosts": "127.0.0.1"}) as tree:
        (id,) = owner.unpack("x.zip", src_dir=tree)
        assert page.is_requested.wait(120)
        owner.grant(fixtures.ALL_RIGHTS & ~DECOMPRESS)
        page.go.set()
        row = owner.wait_for(KIND, id)
    assert (row["state"], row["error"]) == (7, "permission denied")
    assert not [path for path in owner.list_staged() if path.startswith(id)]
    assert owner.wait_for_all(UPLOAD) == [] and read_files(owner.root) == {}


def test_an_archive_that_changes_midway_goes_nowhere(owner: TaskClient, admin: Client, web: Origin) -> None:
    page, structure = serve_slowly(web)
    with fixtures.mount(
        admin, "UrlTree", addition={"url_structure": structure, "writable": True, "allowed_hosts": "127.0.0.1"}
    ) as tree:
        (id,) = owner.unpack("x.zip", src_dir=tree)
        assert page.is_requested.wait(120)
        admin.ok("/api/fs/remove", dir=tree, names=["x.zip"])
        url = structure.partition(":1600000000:")[2]
        admin.ok("/api/fs/add_offline_download", urls=[url], path=tree, tool="SimpleHttp")  # without size and date
        page.go.set()
        row = owner.wait_for(KIND, id)
    assert (row["state"], row["error"]) == (7, "the source changed since the task began")
    assert not [path for path in owner.list_staged() if path.startswith(id)]
    assert owner.wait_for_all(UPLOAD) == [] and read_files(owner.root) == {}


def list_done(client: Client, kind: str) -> list[Row]:
    rows: list[Row] = client.get(f"/openlist/api/task/{kind}/done")["data"]
    return rows


@pytest.mark.long
def test_a_killed_service_goes_on_and_brings_every_file_once(tmp_path: Path, web: Origin) -> None:
    page, structure = serve_slowly(web)
    root = tmp_path / "root"
    root.mkdir()
    with run_forked(tmp_path / "data") as service:
        admin = service.client()
        for path, driver, options in (
            ("/tree", "UrlTree", {"url_structure": structure, "allowed_hosts": "127.0.0.1"}),
            ("/other", "Local", {"root_folder_path": str(root)}),
        ):
            body = {"mount_path": path, "driver": driver, "addition": json.dumps(options)}
            admin.ok("/api/admin/storage/create", **body)
        admin.ok(ROUTE, src_dir="/tree", dst_dir="/other", name=["x.zip"], put_into_new_dir=True)
        assert page.is_requested.wait(120)
        service.kill()
    page.go.set()
    with run_forked(tmp_path / "data") as service:
        again = Client(service.address, admin.token)
        for kind in (KIND, UPLOAD):
            (row,) = wait_until(partial(list_done, again, kind))
            assert (row["state"], row["error"]) == (2, "")
        assert read_files(root) == {f"x/{name}": content for name, content in HEAVY.items()}
        assert [path for path in (service.data / "staging").rglob("*") if path.is_file()] == []
        assert service.find_unfinished(service.data / "staging") == []
