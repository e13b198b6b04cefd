"""Thumbnails over HTTP."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image

from tests import servers
from tests.contract.api import fixtures
from tests.contract.api.download_client import check_page, make_signature, make_url, read_key
from tests.support.service import Client


def make_picture(width: int, height: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (width, height), "teal").save(out, "PNG")
    return out.getvalue()


def test_a_picture_has_a_thumbnail_where_the_storage_makes_them(admin: Client, visitor: Client, tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(make_picture(600, 300))
    (tmp_path / "p.txt").write_text("no picture")
    with fixtures.local(admin, tmp_path, addition={"thumbnail": True}) as mounted:
        rows = {row["name"]: row for row in admin.ok("/api/fs/list", path=mounted)["content"]}
        assert rows["p.txt"]["thumb"] == ""
        thumb = rows["p.png"]["thumb"]
        assert thumb == f"{admin.address}/d{mounted}/p.png?type=thumb&sign={rows['p.png']['sign']}"
        answer = visitor.http.get(thumb)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
        assert Image.open(io.BytesIO(answer.content)).size == (144, 72)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-disposition"].startswith("attachment")
        check_page(visitor.http.get(thumb.partition("&sign=")[0]), 401, "expire missing")
        assert visitor.http.get(thumb.replace("type=thumb&", "")).content == make_picture(600, 300)


def test_what_is_no_picture_has_no_thumbnail(admin: Client, visitor: Client, folder: str, tmp_path: Path) -> None:
    key = read_key(admin)
    (tmp_path / "fake.png").write_text("<script>")
    (tmp_path / "f.txt").write_text("text")
    (tmp_path / "active.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
    with fixtures.local(admin, tmp_path, addition={"thumbnail": True}) as mounted:
        for name, message in (("fake.png", "not a picture"), ("f.txt", "the storage cannot do this")):
            path = f"{mounted}/{name}"
            check_page(visitor.http.get(make_url("d", path, make_signature(key, path)) + "&type=thumb"), 500, message)
        path = f"{mounted}/active.svg"
        answer = visitor.http.get(make_url("d", path, make_signature(key, path)) + "&type=thumb")
        assert answer.headers["content-security-policy"].startswith("sandbox;")
        assert answer.headers["content-disposition"].startswith("attachment")
    admin.put(f"{folder}/p.png", make_picture(10, 10))
    assert admin.ok("/api/fs/list", path=folder)["content"][0]["thumb"] == ""
    address = make_url("d", f"{folder}/p.png", make_signature(key, f"{folder}/p.png")) + "&type=thumb"
    check_page(visitor.http.get(address), 500, "the storage cannot do this")


def test_a_picture_of_too_many_pixels_is_not_opened(admin: Client, visitor: Client, tmp_path: Path) -> None:
    out = io.BytesIO()
    Image.new("1", (9000, 9000)).save(out, "PNG")
    (tmp_path / "bomb.png").write_bytes(out.getvalue())
    with fixtures.local(admin, tmp_path, addition={"thumbnail": True}) as mounted:
        path = f"{mounted}/bomb.png"
        address = make_url("d", path, make_signature(read_key(admin), path)) + "&type=thumb"
        check_page(visitor.http.get(address), 500, "the picture is too large for a thumbnail")


def test_a_picture_on_another_storage_has_a_thumbnail_of_its_version(admin: Client, visitor: Client) -> None:
    with servers.moto_s3() as endpoint:
        options = servers.s3_options(endpoint, servers.make_bucket(endpoint))
        with fixtures.mount(admin, "S3", addition=options) as mounted:
            for size in ((600, 300), (300, 600)):
                admin.put(f"{mounted}/p.png", make_picture(*size))
                row = admin.ok("/api/fs/list", path=mounted, refresh=True)["content"][0]
                assert row["thumb"] == admin.ok("/api/fs/get", path=f"{mounted}/p.png")["thumb"]
                for _ in range(2):  # made, and read again
                    answer = visitor.http.get(row["thumb"])
                    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
                    assert Image.open(io.BytesIO(answer.content)).size == (144, round(144 * size[1] / size[0]))


def test_thumbnails_of_another_storage_are_bounded_by_a_setting(admin: Client, visitor: Client) -> None:
    with servers.moto_s3() as endpoint:
        options = servers.s3_options(endpoint, servers.make_bucket(endpoint))
        with fixtures.mount(admin, "S3", addition=options) as mounted:
            for name, content in (("p.png", make_picture(60, 30)), ("p.svg", b"<svg/>"), ("p.txt", b"text")):
                admin.put(f"{mounted}/{name}", content)
            admin.put(f"{mounted}/large.png", make_picture(60, 30) + bytes(1 << 20))
            with fixtures.settings(admin, remote_thumbnail_max_mb="1"):
                rows = admin.ok("/api/fs/list", path=mounted, refresh=True)["content"]
                assert [row["name"] for row in rows if row["thumb"]] == ["p.png"]
            path = f"{mounted}/p.png"
            address = make_url("d", path, make_signature(read_key(admin), path)) + "&type=thumb"
            with fixtures.settings(admin, remote_thumbnail_max_mb="0"):
                assert admin.ok("/api/fs/get", path=path)["thumb"] == ""
                check_page(visitor.http.get(address), 500, "the storage cannot do this")


def test_a_false_picture_on_another_storage_has_no_thumbnail(admin: Client, visitor: Client) -> None:
    with servers.moto_s3() as endpoint:
        options = servers.s3_options(endpoint, servers.make_bucket(endpoint))
        with fixtures.mount(admin, "S3", addition=options) as mounted:
            admin.put(f"{mounted}/fake.png", b"<script>")
            thumb = admin.ok("/api/fs/list", path=mounted, refresh=True)["content"][0]["thumb"]
            check_page(visitor.http.get(thumb), 500, "not a picture")
