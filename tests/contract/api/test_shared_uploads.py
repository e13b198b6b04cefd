"""Uploads of visitors through share links, over HTTP."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from mangrove.records.open_uploads import MAX_OPEN_UPLOADS_PER_SENDER
from tests.contract.api import fixtures
from tests.contract.api.test_shared_files import Shares
from tests.support import waiting
from tests.support.service import Client, Service

SESSION = {"x-share-session": "a random text"}


@pytest.fixture
def shares(service: Service, admin: Client, folder: str) -> Iterator[Shares]:
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS) as owner:
        yield Shares(service, admin, owner, folder)
        waiting.wait_until(lambda: owner.get("/api/task/upload/undone")["data"] in ([], None))


def send(shares: Shares, path: str, content: Any = b"sent", **headers: str) -> httpx.Response:
    return shares.visitor.http.put(f"/sd/{path}", content=content, headers=headers)


def test_drop_link_takes_a_file_and_answers_with_a_receipt(shares: Shares) -> None:
    id = shares.create(mode="drop", pwd="p")
    answer = send(shares, f"{id}/new.txt?pwd=p", **SESSION)
    digest = sha256(b"sent").hexdigest()
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
    id = shares.create(mode="drop")
    shares.update(id, mode="drop", **fields)
    before = sorted(entry.name for entry in shares.disk.iterdir())
    answer = send(shares, f"{id}/{name}")
    assert answer.status_code in (413, 404) and reason in answer.text
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


def begin(shares: Shares, path: str, size: int, **headers: str) -> dict[str, Any]:
    sent = {"file-path": f"/@s/{path}", "x-file-size": str(size), "x-chunk-size": str(1 << 20)} | headers
    answer: dict[str, Any] = shares.visitor.http.post("/api/fs/multipart/init", headers=sent).json()
    return answer


def send_chunk(client: Client, upload_id: str, index: int, content: bytes) -> dict[str, Any]:
    headers = {"x-upload-id": upload_id, "x-chunk-index": str(index)}
    answer: dict[str, Any] = client.http.put("/api/fs/multipart/chunk", content=content, headers=headers).json()
    return answer


def complete(client: Client, upload_id: str) -> dict[str, Any]:
    headers = {"x-upload-id": upload_id} | SESSION
    answer: dict[str, Any] = client.http.post("/api/fs/multipart/complete", headers=headers).json()
    return answer


def wait_for(path: Path) -> bytes:
    waiting.wait_until(path.exists)
    return path.read_bytes()


def test_upload_in_chunks_through_a_drop_link_is_resumed_by_its_id(shares: Shares, service: Service) -> None:
    content = b"x" * (1 << 20) + b"the end"
    id = shares.create(mode="drop", pwd="p", max_files=1)
    assert begin(shares, f"{id}/big.bin", len(content))["code"] == 403
    begun = begin(shares, f"{id}/big.bin", len(content), password="p")
    assert begun["code"] == 200, begun
    upload_id = begun["data"]["upload_id"]
    assert begun["data"]["path"] == f"/@s/{id}/big.bin" and shares.folder not in str(begun)
    assert send_chunk(shares.visitor, upload_id, 1, b"the end")["code"] == 200
    other = service.anonymous()
    assert complete(other, upload_id)["code"] == 400
    status = other.get("/api/fs/multipart/status", upload_id=upload_id)
    assert status["data"]["received"] == [[1, 1]]
    assert send_chunk(other, upload_id, 0, content[: 1 << 20])["code"] == 200
    done = complete(other, upload_id)
    assert done["code"] == 200 and "task" not in done["data"] and done["data"]["receipt"]["name"] == "big.bin", done
    assert done["data"]["receipt"]["sha256"] == sha256(content).hexdigest()
    assert wait_for(shares.disk / "big.bin") == content
    assert complete(other, upload_id)["data"]["receipt"]["sha256"] == sha256(content).hexdigest()
    assert begin(shares, f"{id}/more.bin", 7, password="p")["code"] == 413
    listed = shares.visitor.http.post("/api/fs/list", json={"path": f"/@s/{id}", "password": "p"}, headers=SESSION)
    assert [entry["name"] for entry in listed.json()["data"]["content"]] == ["big.bin"]


def test_uploads_in_chunks_are_never_more_than_allowed(shares: Shares) -> None:
    id = shares.create(mode="drop", max_files=1)
    begun = [begin(shares, f"{id}/{number}.bin", 3)["data"]["upload_id"] for number in range(3)]
    for upload_id in begun:
        assert send_chunk(shares.visitor, upload_id, 0, b"abc")["code"] == 200
    assert sorted(complete(shares.visitor, upload_id)["code"] for upload_id in begun) == [200, 413, 413]


def test_upload_in_chunks_with_another_hash_is_refused(shares: Shares) -> None:
    id = shares.create(mode="drop")
    for digest, code in ((sha256(b"abc").hexdigest(), 200), ("00" * 32, 400)):
        upload_id = begin(shares, f"{id}/n.bin", 3, **{"x-file-sha256": digest})["data"]["upload_id"]
        assert send_chunk(shares.visitor, upload_id, 0, b"abc")["code"] == 200
        answer = complete(shares.visitor, upload_id)
        assert answer["code"] == code
        assert code == 400 or answer["data"]["receipt"]["sha256"] == digest


def test_open_uploads_of_an_address_are_bounded(shares: Shares) -> None:
    id = shares.create(mode="drop")
    begun = [begin(shares, f"{id}/{number}.bin", 3) for number in range(MAX_OPEN_UPLOADS_PER_SENDER)]
    assert {answer["code"] for answer in begun} == {200}
    refused = begin(shares, f"{id}/more.bin", 3)
    assert refused["code"] == 429 and "have begun and not ended" in refused["message"]
    headers = {"x-upload-id": begun[0]["data"]["upload_id"]}
    assert shares.visitor.http.post("/api/fs/multipart/abort", headers=headers).json()["code"] == 200
    again = begin(shares, f"{id}/more.bin", 3)["data"]["upload_id"]
    assert begin(shares, f"{id}/even more.bin", 3)["code"] == 429
    assert send_chunk(shares.visitor, again, 0, b"abc")["code"] == 200
    assert complete(shares.visitor, again)["code"] == 200
    assert begin(shares, f"{id}/even more.bin", 3)["code"] == 200


def test_upload_in_chunks_ends_with_the_rights_of_the_owner(shares: Shares) -> None:
    id = shares.create(mode="drop", max_file_size=10)
    assert begin(shares, f"{id}/big.bin", 11)["code"] == 413 and begin(shares, f"{id}/sub/n.bin", 3)["code"] == 403
    upload_id = begin(shares, f"{id}/n.bin", 3)["data"]["upload_id"]
    shares.change_owner(permission=fixtures.ALL_RIGHTS & ~fixtures.WRITE)
    assert send_chunk(shares.visitor, upload_id, 0, b"abc")["code"] == 403
    shares.change_owner(permission=fixtures.ALL_RIGHTS)
    assert send_chunk(shares.visitor, upload_id, 0, b"abc")["code"] == 200
    shares.owner.ok("/api/share/disable", params={"id": id})
    assert complete(shares.visitor, upload_id)["code"] == 500
    assert not (shares.disk / "n.bin").exists()


def test_disabled_guest_uploads_through_share_links_only(shares: Shares) -> None:
    own = shares.owner.http.post(
        "/api/fs/multipart/init", headers={"file-path": f"{shares.folder}/own.bin", "x-file-size": "3"}
    ).json()["data"]["upload_id"]
    assert send_chunk(shares.visitor, own, 0, b"abc")["code"] == 401
    assert complete(shares.visitor, own)["code"] == 401
    headers = {"file-path": f"{shares.folder}/x.bin", "x-file-size": "3"}
    assert shares.visitor.http.post("/api/fs/multipart/init", headers=headers).json()["code"] == 401


def test_refused_body_is_not_read(shares: Shares) -> None:
    id = shares.create(mode="drop", max_file_size=3)
    url = urlsplit(shares.visitor.address)
    head = f"PUT /sd/{id}/n.bin HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Length: 1000000000\r\n\r\n"
    with socket.create_connection((url.hostname or "", url.port or 80), 60) as connection:
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413")
