"""Ranges of a download over HTTP."""

from __future__ import annotations

from email.parser import BytesParser

import pytest

from tests.contract.api.download_client import LETTERS
from tests.support.service import Client


@pytest.mark.parametrize(
    ("requested_range", "start", "stop"),
    [
        ("bytes=0-4", 0, 5),
        ("bytes=0-0", 0, 1),
        ("bytes=5-", 5, 26),
        ("bytes=25-", 25, 26),
        ("bytes=-3", 23, 26),
        ("bytes=0-999", 0, 26),
        ("bytes=-999", 0, 26),
        ("bytes= 3 - 5", 3, 6),
        ("BYTES=1-2", 1, 3),
        ("bytes=2-3,99-", 2, 4),
    ],
)
def test_a_range_is_answered_with_its_bytes(
    visitor: Client, letters: str, requested_range: str, start: int, stop: int
) -> None:
    answer = visitor.http.get(letters, headers={"range": requested_range})
    assert (answer.status_code, answer.content) == (206, LETTERS[start:stop])
    assert answer.headers["content-range"] == f"bytes {start}-{stop - 1}/26"
    assert answer.headers["content-length"] == str(stop - start)
    head = visitor.http.head(letters, headers={"range": requested_range})
    assert (head.status_code, head.content) == (206, b"")
    assert head.headers["content-range"] == answer.headers["content-range"]


def test_several_ranges_are_answered_in_parts(visitor: Client, letters: str) -> None:
    answer = visitor.http.get(letters, headers={"range": "bytes=0-1,5-6,-1"})
    assert answer.status_code == 206
    assert answer.headers["content-length"] == str(len(answer.content))
    kind = answer.headers["content-type"]
    assert kind.startswith("multipart/byteranges; boundary=")
    message = BytesParser().parsebytes(f"Content-Type: {kind}\r\n\r\n".encode() + answer.content)
    parts = [(part["Content-Range"], part["Content-Type"], part.get_payload()) for part in message.get_payload()]
    text = "text/plain; charset=utf-8"
    assert parts == [
        ("bytes 0-1/26", text, "ab"),
        ("bytes 5-6/26", text, "fg"),
        ("bytes 25-25/26", text, "z"),
    ]
    head = visitor.http.head(letters, headers={"range": "bytes=0-1,5-6,-1"})
    assert (head.status_code, head.headers["content-length"]) == (206, answer.headers["content-length"])


@pytest.mark.parametrize("requested_range", ["bytes=0-25,0-25", "bytes=" + ",".join(["0-0"] * 100), "bytes=0-,1-,2-"])
def test_ranges_that_want_more_than_the_file_get_the_file(visitor: Client, letters: str, requested_range: str) -> None:
    answer = visitor.http.get(letters, headers={"range": requested_range})
    assert (answer.status_code, answer.content) == (200, LETTERS)


@pytest.mark.parametrize(
    ("requested_range", "text"),
    [
        ("bytes=26-", "invalid range: failed to overlap"),
        ("bytes=100-200,300-", "invalid range: failed to overlap"),
        ("bytes=-0", "invalid range: failed to overlap"),
        ("bytes=5-2", "invalid range"),
        ("bytes=x-y", "invalid range"),
        ("bytes=-", "invalid range"),
        ("bytes=", "invalid range"),
        ("bytes=--5", "invalid range"),
        ("bytes=" + "9" * 400 + "-", "invalid range"),
        ("bytes=1-2,nonsense", "invalid range"),
        ("items=0-1", "invalid range"),
    ],
)
def test_a_range_that_cannot_be_is_a_416(visitor: Client, letters: str, requested_range: str, text: str) -> None:
    answer = visitor.http.get(letters, headers={"range": requested_range})
    assert (answer.status_code, answer.text) == (416, text)
    assert answer.headers["content-range"] == "bytes */26"


def test_an_empty_file_has_no_ranges(admin: Client, folder: str) -> None:
    admin.put(f"{folder}/empty", b"")
    for headers in ({}, {"range": "bytes=0-"}, {"range": "bytes=5-"}):
        answer = admin.bytes(f"{folder}/empty", **headers)
        assert (answer.status_code, answer.content, answer.headers["content-length"]) == (200, b"", "0")


def test_a_large_file_arrives_whole_and_in_pieces(admin: Client, folder: str) -> None:
    content = bytes(range(251)) * 20_000
    admin.put(f"{folder}/large.bin", content)
    assert admin.bytes(f"{folder}/large.bin").content == content
    answer = admin.bytes(f"{folder}/large.bin", range="bytes=1048570-4000000")
    assert answer.content == content[1048570:4000001]
