"""Uploads of visitors through share links, over HTTP."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.api import fixtures
from tests.contract.api.test_shared_files import Shares
from tests.support.service import Client, Service

SESSION = {"x-share-session": "a random text"}


@pytest.fixture
def shares(service: Service, admin: Client, folder: str) -> Iterator[Shares]:
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS) as owner:
        yield Shares(service, admin, owner, folder)


def send(shares: Shares, path: str, content: Any = b"sent", **headers: str) -> httpx.Response:
    return shares.visitor.http.put(f"/sd/{path}", content=content, headers=headers)


def test_drop_link_takes_a_file_and_answers_with_a_receipt(shares: Shares) -> None:
    id = shares.create(mode="drop", pwd="p")
    answer = send(shares, f"{id}/new.txt?pwd=p", **SESSION)
    digest = hashlib.sha256(b"sent").hexdigest()
    assert answer.status_code == 201 and answer.text.startswith(f"new.txt 4 bytes sha256:{digest} 20")
    assert answer.text.count("\n") == 1 and answer.headers["content-type"].startswith("text/plain")
    assert (shares.disk / "new.txt").read_bytes() == b"sent"
    assert send(shares, f"{id}/other.txt").status_code == 403


def test_curl_uploads_to_the_address_of_a_drop_link(shares: Shares, tmp_path: Path) -> None:
    (tmp_path / "my file.txt").write_bytes(b"x" * 100_000)
    id = shares.create(mode="drop")
    url = f"{shares.visitor.address}/sd/{id}/"
    run = subprocess.run(
        ["curl", "-sS", "-T", str(tmp_path / "my file.txt"), url], capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith("my file.txt 100000 bytes sha256:")
    assert (shares.disk / "my file.txt").stat().st_size == 100_000


def test_drop_link_shows_what_was_sent_in_the_session_alone(shares: Shares) -> None:
    id = shares.create(mode="drop")
    send(shares, f"{id}/new.txt", **SESSION)
    send(shares, f"{id}/others.txt", **{"x-share-session": "another text"})

    def list_names(**headers: str) -> list[str]:
        answer = shares.visitor.http.post("/api/fs/list", json={"path": f"/@s/{id}"}, headers=headers).json()
        return [entry["name"] for entry in answer["data"]["content"]]

    assert list_names(**SESSION) == ["new.txt"] and list_names() == []
    assert shares.get(f"{id}/a.txt")["code"] == 403 and shares.get(id)["data"]["share"]["mode"] == "drop"
    assert shares.visitor.http.get(f"/sd/{id}/a.txt").status_code == 403
    body = {"path": f"/@s/{id}/x.zip", "inner_path": "/"}
    assert shares.visitor.post("/api/fs/archive/list", **body)["code"] == 403


def test_taken_name_is_stored_beside_the_other_file(shares: Shares) -> None:
    id = shares.create(mode="drop")
    answer = send(shares, f"{id}/a.txt")
    assert answer.status_code == 201 and answer.text.startswith("a (")
    assert (shares.disk / "a.txt").read_text() == "letters"
    (other,) = shares.disk.glob("a (*.txt")
    assert other.read_bytes() == b"sent"
    assert send(shares, f"{id}/sub").status_code == 201 and (shares.disk / "sub/b.txt").exists()


def test_link_for_both_reads_and_takes_files_below(shares: Shares) -> None:
    id = shares.create(mode="both")
    assert send(shares, f"{id}/sub/new.txt").status_code == 201
    assert sorted(shares.names(f"{id}/sub")) == ["b.txt", "new.txt"] and shares.list(id)["data"]["write"]
    drop = shares.create(mode="drop")
    assert send(shares, f"{drop}/sub/more.txt").status_code == 403


@pytest.mark.parametrize(
    ("fields", "name", "reason"),
    [
        ({"max_file_size": 3}, "new.txt", "a file may have at most 3 bytes"),
        ({"max_total_size": 3}, "new.txt", "this share takes at most 3 bytes"),
        ({"extensions": [".JPG", "png"]}, "new.txt", "only files with these extensions are taken: jpg, png"),
        ({"expires": "2020-01-01T00:00:00Z"}, "new.txt", "the share has expired or is no longer valid"),
    ],
)
def test_file_over_a_limit_is_refused_before_it_is_read(
    shares: Shares, fields: dict[str, Any], name: str, reason: str
) -> None:
    id = shares.create(mode="drop", **fields)
    before = sorted(entry.name for entry in shares.disk.iterdir())
    answer = send(shares, f"{id}/{name}")
    assert answer.status_code in (413, 500) and reason in answer.text
    assert sorted(entry.name for entry in shares.disk.iterdir()) == before


def test_limits_count_files_that_are_sent_together(shares: Shares) -> None:
    id = shares.create(mode="drop", max_files=3, max_total_size=1000, max_file_size=100)
    assert send(shares, f"{id}/unknown.txt", content=iter([b"x"])).status_code == 400
    with ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(lambda number: send(shares, f"{id}/{number}.txt").status_code, range(8)))
    assert sorted(codes) == [201] * 3 + [413] * 5
    assert len(list(shares.disk.glob("[0-9].txt"))) == 3
    broken = shares.create(mode="drop", max_files=1)
    assert send(shares, f"{broken}/b.txt", **{"x-file-sha256": "00" * 32}).status_code == 400
    assert send(shares, f"{broken}/c.txt").status_code == 201


def test_upload_needs_a_link_that_takes_it_and_a_present_right(shares: Shares) -> None:
    reading, file = shares.create(), shares.create("a.txt", mode="drop")
    for path in (f"{reading}/n.txt", f"{file}/n.txt", f"{file}/", f"{file}/../n.txt", f"{reading}"):
        assert send(shares, path).status_code >= 400, path
    id = shares.create(mode="drop")
    shares.change_owner(permission=fixtures.ALL_RIGHTS & ~fixtures.WRITE)
    assert send(shares, f"{id}/n.txt").status_code == 403
    names = ["a.txt", "sub", "x.zip"]
    assert sorted(entry.name for entry in shares.disk.iterdir()) == names and not list(shares.disk.parent.glob("n.txt"))
