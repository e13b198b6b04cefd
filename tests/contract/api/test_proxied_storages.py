"""Requests to another server whose bytes pass through the service."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from tests.contract.api import fixtures
from tests.support import origin
from tests.support.origin import Answering, Origin, Request
from tests.support.service import Client

CONTENT = bytes(range(256)) * 1024  # 256 KiB
LARGE = bytes((10 << 20) + 1)  # one byte more than a range whose size is not given


def serve_ranges(content: bytes) -> Answering:
    """The content, with ranges of both kinds."""

    def answer(request: Request) -> None:
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("range", ""))
        start, end = (int(match[1]), int(match[2] or len(content) - 1) + 1) if match else (0, len(content))
        body = content[start:end]
        more = {"content-range": f"bytes {start}-{start + len(body) - 1}/{len(content)}"} if match else {}
        request.head(206 if match else 200, {"content-length": len(body)} | more)
        request.wfile.write(body)

    return answer


@contextmanager
def url_tree(admin: Client, url: str, size: int = len(CONTENT), **fields: object) -> Iterator[str]:
    """A storage whose only file `a.bin` lies at `url` on this machine."""
    addition = {"url_structure": f"a.bin:{size}:{url}", "allowed_hosts": "127.0.0.1"}
    with fixtures.mount(admin, "UrlTree", addition=addition, **fields) as path:
        yield path


def fetch(admin: Client, path: str, **headers: str) -> bytes:
    sign = admin.ok("/api/fs/get", path=path)["sign"]
    extra = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = admin.http.get(f"/p{path}", params={"sign": sign}, headers=extra)
    assert answer.status_code == 200, answer.text
    return answer.content


def find_request(web: Origin, path: str) -> Request:
    return next(request for request in reversed(web.requests) if request.path == path)


def test_client_headers_reach_server_unless_ignored(admin: Client, web: Origin) -> None:
    path = f"/{uuid4().hex}"
    url = web.at(path, origin.file(CONTENT))
    sent = {"referer": "http://from.example/", "x_one": "1", "x_two": "2", "cookie": "a=b", "user_agent": "a player"}
    with url_tree(admin, url, web_proxy=True) as mounted:
        assert fetch(admin, f"{mounted}/a.bin", **sent) == CONTENT
        seen = find_request(web, path).headers
        assert (seen["x-one"], seen["x-two"], seen["user-agent"]) == ("1", "2", "a player")
        assert (seen["referer"], seen["authorization"], seen["cookie"]) == (None, None, None)
        with fixtures.settings(admin, proxy_ignore_headers="X-One, authorization"):
            assert fetch(admin, f"{mounted}/a.bin", **sent) == CONTENT
        seen = find_request(web, path).headers
        assert (seen["x-one"], seen["x-two"], seen["referer"]) == (None, "2", "http://from.example/")
        assert (seen["authorization"], seen["cookie"]) == (None, None), "whatever the setting says"


@pytest.mark.parametrize(
    ("content", "fields", "options", "ranges"),
    [
        (CONTENT, {}, {}, [None]),
        (LARGE, {}, {}, [None]),
        (LARGE, {}, {"download_concurrency": 2}, ["bytes=0-10485759", "bytes=10485760-"]),
        (LARGE, {"proxy_range": True}, {}, ["bytes=0-10485759", "bytes=10485760-"]),
        (CONTENT, {}, {"download_part_size": 100}, ["bytes=0-102399", "bytes=102400-204799", "bytes=204800-"]),
        (CONTENT, {}, {"download_concurrency": 3, "download_part_size": 128}, ["bytes=0-131071", "bytes=131072-"]),
    ],
)
def test_an_alias_fetches_in_ranges_as_its_options_say(
    admin: Client,
    web: Origin,
    content: bytes,
    fields: dict[str, bool],
    options: dict[str, int],
    ranges: list[str | None],
) -> None:
    path = f"/{uuid4().hex}"
    with url_tree(admin, web.at(path, serve_ranges(content)), len(content)) as source:
        addition = {"paths": source} | options
        with fixtures.mount(admin, "Alias", addition=addition, web_proxy=True, **fields) as alias:
            assert fetch(admin, f"{alias}/a.bin") == content
    requested_ranges = [request.headers["range"] for request in web.requests if request.path == path]
    assert sorted(requested_ranges, key=str) == sorted(ranges, key=str)


def test_a_name_with_a_slash_is_shown_as_the_mapping_says(admin: Client, web: Origin) -> None:
    url = web.at(f"/{uuid4().hex}", origin.file(CONTENT))
    addition = {"url_structure": f"a/b.bin:{len(CONTENT)}:{url}", "allowed_hosts": "127.0.0.1"}
    with fixtures.mount(admin, "UrlTree", addition=addition, web_proxy=True) as path:
        assert admin.names(path) == ["a|b.bin"]
        assert fetch(admin, f"{path}/a|b.bin") == CONTENT
    with (
        fixtures.settings(admin, filename_char_mapping='{"/": " of "}'),
        fixtures.mount(admin, "UrlTree", addition=addition) as path,
    ):
        assert admin.names(path) == ["a of b.bin"]


def test_names_of_every_storage_are_shown_and_found_by_the_mapping(admin: Client, tmp_path: Path) -> None:
    """C5: the mapping acted on UrlTree only. Storages that run already follow the setting, too."""
    (tmp_path / "disk").mkdir()
    for name in ("a:b.txt", "c_d.txt", "c:d.txt"):
        (tmp_path / "disk" / name).write_text(name)
    with fixtures.local(admin, tmp_path / "disk") as path:
        assert admin.names(path) == ["a:b.txt", "c:d.txt", "c_d.txt"]
        with fixtures.settings(admin, filename_char_mapping='{":": "_"}'):
            assert admin.names(path) == ["a_b.txt", "c:d.txt", "c_d.txt"]
            assert admin.bytes(f"{path}/a_b.txt").content == b"a:b.txt"
            assert admin.bytes(f"{path}/c_d.txt").content == b"c_d.txt"
            assert admin.post("/api/fs/get", path=f"{path}/a:b.txt")["message"] == fixtures.NOTHING_THERE
            assert admin.put(f"{path}/a_b.txt", b"new")["code"] == 200
            assert "filename_char_mapping" in admin.put(f"{path}/x:y", b"new")["message"]
            admin.ok("/api/fs/rename", path=f"{path}/a_b.txt", name="e_f.txt")
            admin.ok("/api/fs/remove", dir=path, names=["c_d.txt"])
            assert admin.names(path) == ["c_d.txt", "e_f.txt"]
        assert admin.names(path) == ["c:d.txt", "e_f.txt"]
