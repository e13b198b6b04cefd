"""Shared files of storages that make thumbnails or serve their files themselves, and the settings about them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from PIL import Image

from tests import servers
from tests.contract.api import fixtures
from tests.contract.api.test_thumbnails import make_picture
from tests.support.service import Client

CONTENT = b"bytes of a bucket"


@pytest.fixture
def pictures(admin: Client, tmp_path: Path) -> Iterator[str]:
    """A storage that makes thumbnails, with a folder of two pictures."""
    (tmp_path / "album").mkdir()
    (tmp_path / "album/p.png").write_bytes(make_picture(600, 300))
    (tmp_path / "album/q.txt").write_text("no picture")
    (tmp_path / "r.png").write_bytes(make_picture(30, 60))
    with fixtures.local(admin, tmp_path, addition={"thumbnail": True}) as mount:
        yield mount


@pytest.fixture
def bucket(admin: Client) -> Iterator[str]:
    """A bucket with a file, whose links clients may get."""
    with servers.moto_s3() as endpoint:
        options = servers.s3_options(endpoint, servers.make_bucket(endpoint))
        with fixtures.mount(admin, "S3", addition=options) as mount:
            assert admin.put(f"{mount}/inner/a.bin", CONTENT)["code"] == 200
            yield mount


def create(admin: Client, *files: str, **fields: object) -> str:
    id: str = admin.ok("/api/share/create", files=list(files), **fields)["id"]
    return id


def list_thumbs(visitor: Client, path: str, password: str = "") -> dict[str, str]:
    rows = visitor.ok("/api/fs/list", path=f"/@s/{path}", password=password)["content"]
    return {row["name"]: row["thumb"] for row in rows}


def test_thumbnails_of_a_share_follow_the_setting(admin: Client, visitor: Client, pictures: str) -> None:
    single, several = create(admin, pictures, pwd="a b"), create(admin, f"{pictures}/album", f"{pictures}/r.png")
    assert set(list_thumbs(visitor, f"{single}/album", "a b").values()) == {""}
    assert visitor.http.get(f"/sd/{single}/r.png?pwd=a%20b&type=thumb").status_code == 403
    with fixtures.settings(admin, share_preview="true"):
        thumbs = list_thumbs(visitor, f"{single}/album", "a b")
        assert thumbs["q.txt"] == "" and pictures not in thumbs["p.png"]
        assert visitor.http.get(thumbs["p.png"].replace("a%20b", "other")).status_code == 403
        top = list_thumbs(visitor, several)
        assert top["album"] == ""
        for address, size in ((thumbs["p.png"], (144, 72)), (top["r.png"], (144, 288))):
            answer = visitor.http.get(address)
            assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
            assert Image.open(io.BytesIO(answer.content)).size == size
        file = visitor.ok("/api/fs/get", path=f"/@s/{single}/album/p.png", password="a b")
        assert file["thumb"] == thumbs["p.png"]
        admin.ok("/api/share/disable", params={"id": single})
        assert visitor.http.get(thumbs["p.png"]).status_code == 404


def test_bytes_of_a_share_pass_through_unless_the_setting_allows_links(
    admin: Client, visitor: Client, bucket: str
) -> None:
    id = create(admin, f"{bucket}/inner", pwd="p")
    url = f"/sd/{id}/a.bin?pwd=p"
    answer = visitor.http.get(url)
    assert (answer.status_code, answer.content) == (200, CONTENT)
    with fixtures.settings(admin, share_force_proxy="false"):
        answer = visitor.http.get(url)
        assert answer.status_code == 302 and "no-store" in answer.headers["cache-control"]
        link = answer.headers["location"]
        assert urlsplit(link).path.endswith("/inner/a.bin")
        assert httpx.get(link, timeout=60).content == CONTENT
        assert visitor.http.get(url, headers={"range": "bytes=0-4"}).status_code == 302
        head = visitor.http.head(url)
        assert (head.status_code, head.headers["content-length"]) == (200, str(len(CONTENT)))
        assert visitor.http.get(f"/sd/{id}/a.bin").status_code == 403
        packed = visitor.http.get(f"/sd/{id}/?zip&pwd=p")
        assert packed.status_code == 200 and CONTENT in packed.content
    assert visitor.http.get(url).status_code == 200


def test_local_files_of_a_share_never_redirect(admin: Client, visitor: Client, pictures: str) -> None:
    id = create(admin, pictures)
    with fixtures.settings(admin, share_force_proxy="false"):
        assert visitor.http.get(f"/sd/{id}/album/q.txt").content == b"no picture"
