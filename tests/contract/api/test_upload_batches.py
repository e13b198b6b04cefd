"""Several small files in one request: each is stored, or refused, by itself."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from mangrove.web.upload_batch import MAX_BATCH_BYTES, MAX_FILES_PER_BATCH
from tests.contract.api import fixtures
from tests.contract.api.upload_client import list_parts, read_stored, send, send_batch
from tests.support.service import Client, Service


def get_outcomes(answer: dict[str, Any]) -> list[tuple[int, str]]:
    """The code and the class of each file's failure."""
    assert answer["code"] == 200, answer
    return [(file["code"], file["problem"]) for file in answer["data"]["files"]]


def test_batch_stores_all_files_with_their_times_and_missing_folders(
    service: Service, admin: Client, folder: str
) -> None:
    files = {f"{folder}/a/{number}.bin": bytes([number]) * number for number in range(MAX_FILES_PER_BATCH)}
    assert get_outcomes(send_batch(admin, files)) == [(200, "")] * len(files)
    for path, content in files.items():
        assert read_stored(service, path) == content
    assert fixtures.disk(service, f"{folder}/a/7.bin").stat().st_mtime == 1_700_000_000
    assert len(admin.names(f"{folder}/a")) == MAX_FILES_PER_BATCH
    assert list_parts(service, folder) == []


def test_refused_file_of_a_batch_leaves_the_others(service: Service, admin: Client, folder: str) -> None:
    send(admin, "put", f"{folder}/old", b"old")
    files = {f"{folder}/old": b"new", f"{folder}/x": b"x", f"{folder}/old/below": b"b", f"{folder}/y": b"y"}
    outcomes = get_outcomes(send_batch(admin, files, overwrite=False))
    assert [code for code, _ in outcomes] == [403, 200, outcomes[2][0], 200]
    assert outcomes[0][1] == "Collision" and outcomes[2][0] != 200 and outcomes[2][1]
    assert admin.names(folder) == ["old", "x", "y"]
    assert read_stored(service, f"{folder}/old") == b"old"
    assert get_outcomes(send_batch(admin, {f"{folder}/old": b"new"})) == [(200, "")]
    assert read_stored(service, f"{folder}/old") == b"new"


def test_wrong_hash_in_a_batch_refuses_that_file(admin: Client, folder: str) -> None:
    rows = [
        {"path": f"{folder}/{name}", "size": 1, "modified": 0, "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in (("good", b"g"), ("bad", b"other"))
    ]
    answer = send_batch(admin, {}, body=b"gb", files=rows)
    assert get_outcomes(answer) == [(200, ""), (400, "BadRequest")]
    assert admin.names(folder) == ["good"]


def test_one_name_twice_in_a_batch_is_stored_once_without_overwrite(
    service: Service, admin: Client, folder: str
) -> None:
    row = {"path": f"{folder}/same", "size": 1, "modified": 0}
    outcomes = get_outcomes(send_batch(admin, {}, body=b"ab", files=[row, row], overwrite=False))
    assert sorted(outcomes) == [(200, ""), (403, "Collision")]
    assert read_stored(service, f"{folder}/same") == (b"a" if outcomes[0][0] == 200 else b"b")


@pytest.mark.parametrize(
    "path", ["/../out", "../out", "/a/../../out", "/", "", "/in/./x", "/a\\b", "/x" * 200 + "/" + "y" * 300]
)
def test_batch_treats_a_path_as_put_does(service: Service, admin: Client, folder: str, path: str) -> None:
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS, base_path=folder) as client:
        single = send(client, "put", path, b"x")
        (outcome,) = send_batch(client, {path: b"x"})["data"]["files"]
    assert (outcome["code"], outcome["message"]) == (single["code"], single["message"])
    assert not (fixtures.disk(service, folder).parent / "out").exists()


def test_each_file_of_a_batch_needs_the_right_to_write(service: Service, admin: Client, folder: str) -> None:
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS & ~fixtures.WRITE, base_path=folder) as client:
        assert [code for code, _ in get_outcomes(send_batch(client, {"/a": b"a", "/b": b"b"}))] == [403, 403]
    assert admin.names(folder) == []
    assert send_batch(service.anonymous(), {f"{folder}/a": b"a"})["code"] == 401


@pytest.mark.parametrize(
    "manifest",
    [
        {"files": [{"path": "/files/x", "size": 2, "modified": 0}]},  # the body has one byte
        {"files": [{"path": "/files/x", "size": -1, "modified": 0}]},
        {"files": [{"path": "/files/x", "size": 1}]},
        {"files": [{"path": "/files/x", "size": 1, "modified": 0, "sha256": "ff"}]},
        {"files": [{"path": "/files/x" * 1000, "size": 1, "modified": 0}]},
        {"files": [{"path": "/files/x", "size": 0, "modified": 0}] * (MAX_FILES_PER_BATCH + 1)},
        {"files": "x"},
    ],
)  # fmt: skip
def test_manifest_that_does_not_fit_stores_nothing(admin: Client, manifest: dict[str, Any]) -> None:
    before = admin.names("/files")
    answer = send_batch(admin, {}, body=b"x", **manifest)
    assert (answer["code"], answer["problem"]) == (400, "BadRequest")
    assert admin.names("/files") == before


@pytest.mark.parametrize(
    ("size", "bytes", "code"), [("", 2, 400), ("x", 2, 400), ("9", 2, 400), ("2", MAX_BATCH_BYTES + 1, 413)]
)
def test_batch_without_a_manifest_or_too_large_is_refused(admin: Client, size: str, bytes: int, code: int) -> None:
    answer = admin.http.put("/api/fs/put_batch", content=b"{" * bytes, headers={"x-manifest-size": size})
    assert admin.envelope(answer)["code"] == code
