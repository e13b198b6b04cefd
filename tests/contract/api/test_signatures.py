"""Signed links over HTTP, and the page that refuses a link."""

from __future__ import annotations

import time
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.contract.api import fixtures
from tests.contract.api.download_client import (
    LETTERS,
    check_page,
    make_old_signature,
    make_signature,
    make_url,
    read_issued,
    read_key,
)
from tests.support.service import Client


def test_the_rule_of_old_signatures_agrees_with_its_published_vectors() -> None:
    path, later = "/local/a b.txt", 1893456000
    assert make_old_signature("dev_token", path) == "oZVEYK8_NpK5BAeDecwy2qXCLWX1nNHjO-J7CbGXtMA=:0"
    assert make_old_signature("dev_token", path, later) == "2UqK-7kzYXuAQFZOQNOZRp10n-OtuLDmO4FWp9ow7m4=:1893456000"


def test_links_are_signed_by_the_rule(admin: Client, folder: str) -> None:
    admin.put(f"{folder}/ü b+c.txt", b"x")
    sign = admin.ok("/api/fs/list", path=folder)["content"][0]["sign"]
    assert sign == make_signature(read_key(admin), f"{folder}/ü b+c.txt", issued=read_issued(sign))
    assert admin.ok("/api/fs/get", path=f"{folder}/ü b+c.txt")["sign"] == sign


@pytest.mark.parametrize("route", ["d", "p", "openlist/d", "openlist/p"])
def test_whoever_has_a_signed_link_gets_the_bytes(visitor: Client, letters: str, route: str) -> None:
    address = letters.replace("/p", f"/{route}", 1)
    answer = visitor.http.get(address)
    assert (answer.status_code, answer.content) == (200, LETTERS)
    head = visitor.http.head(address)
    assert (head.status_code, head.content) == (200, b"")
    of_request = {"date", "x-request-id"}
    shown = {name: value for name, value in head.headers.items() if name not in of_request}
    assert shown == {name: value for name, value in answer.headers.items() if name not in of_request}
    assert answer.headers["content-length"] == "26"
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["last-modified"] == "Thu, 02 Jan 2020 03:04:05 GMT"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize("route", ["d", "p"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("sign", "message"),
    [
        (None, "expire missing"),
        ("", "expire missing"),
        ("{good}:", "expire missing"),
        ("abc", "expire invalid"),
        ("{good}:soon", "expire invalid"),
        ("{good}:-5", "expire invalid"),
        ("{good}:1.5", "expire invalid"),
        ("{good}:" + "9" * 400, "expire invalid"),
        ("{good}:\u0661", "expire invalid"),
        ("{past}", "sign expired"),
        ("{good}:1", "sign expired"),
        ("{good}:1893456000", "sign invalid"),
        ("AAAA:0", "sign invalid"),
        (":0", "sign invalid"),
        ("\u00fc:0", "sign invalid"),
        ("{longer}", "sign invalid"),
        ("{folder}", "sign invalid"),
        ("{other}", "sign invalid"),
        ("{without}", "sign invalid"),
    ],
)
def test_a_signature_that_is_not_good_for_the_file_is_a_401_page(
    admin: Client, visitor: Client, folder: str, route: str, method: str, sign: str | None, message: str
) -> None:
    key, path = read_key(admin), f"{folder}/f.txt"
    admin.put(path, b"secret")
    made = {
        "good": make_signature(key, path).removesuffix(":0"),
        "past": make_signature(key, path, 1_600_000_000),
        "longer": "A" + make_signature(key, path),
        "folder": make_signature(key, folder),
        "other": make_signature(key, f"{folder}/other.txt"),
        "without": make_signature(b"", path),
    }
    sent = None if sign is None else sign.format(**made)
    answer = visitor.http.request(method, make_url(route, path, sent))
    if method == "HEAD":
        assert (answer.status_code, answer.content) == (401, b"")
    else:
        check_page(answer, 401, message)


def test_the_signature_is_tested_before_anything_is_looked_up(visitor: Client, folder: str) -> None:
    for path in (f"{folder}/none", folder, "/no-such-mount/x", "/files"):
        check_page(visitor.http.get(make_url("d", path)), 401, "expire missing")


def test_a_signature_may_end_with_a_slash_and_may_still_last(admin: Client, visitor: Client, folder: str) -> None:
    key, path = read_key(admin), f"{folder}/f.txt"
    admin.put(path, b"here")
    for sign in (make_signature(key, path) + "/", make_signature(key, path, int(time.time()) + 60)):
        assert visitor.http.get(make_url("d", path, sign)).content == b"here"


def test_a_signature_counts_for_every_spelling_of_its_path_and_no_other(
    admin: Client, visitor: Client, folder: str
) -> None:
    key, path = read_key(admin), f"{folder}/f.txt"
    admin.put(path, b"here")
    sign = quote(make_signature(key, path))
    name = folder.removeprefix("/files/")
    for spelling in (
        f"files//{name}/f.txt",
        f"files/%2e/{name}/f.txt",
        f"files%5c{name}%5cf.txt",
        f"files/{name}/f.txt/",
    ):
        assert visitor.http.get(f"/d/{spelling}?sign={sign}").content == b"here"
    for spelling in (f"files/x/%2e%2e/{name}/f.txt", f"files/x%5c..%5c{name}/f.txt"):
        check_page(visitor.http.get(f"/d/{spelling}?sign={sign}"), 403, "using relative path is not allowed")
    for spelling in (f"files/{name}/F.txt", f"files/{name}/f.txt%20", f"files/{name}/f%252etxt"):
        check_page(visitor.http.get(f"/d/{spelling}?sign={sign}"), 401, "sign invalid")


def test_links_expire_when_the_setting_says_so(admin: Client, visitor: Client, folder: str) -> None:
    path = f"{folder}/f.txt"
    admin.put(path, b"here")
    with fixtures.settings(admin, link_expiration="2"):
        sign = admin.ok("/api/fs/get", path=path)["sign"]
        row = admin.ok("/api/fs/list", path=folder)["content"][0]
        assert row["sign"].rpartition(":")[2] == sign.rpartition(":")[2]
    ends = int(sign.rpartition(":")[2])
    assert 2 * 3600 <= ends - time.time() <= 2 * 3600 + 600
    assert sign == make_signature(read_key(admin), path, ends, issued=read_issued(sign))
    assert visitor.http.get(make_url("d", path, sign)).content == b"here"
    assert admin.ok("/api/fs/get", path=path)["sign"].endswith(":0")


def test_a_new_permanent_token_ends_all_old_links(admin: Client, visitor: Client, folder: str) -> None:
    path = f"{folder}/f.txt"
    admin.put(path, b"here")
    old = admin.ok("/api/fs/get", path=path)["sign"]
    admin.ok("/api/admin/setting/reset_token")
    check_page(visitor.http.get(make_url("d", path, old)), 401, "sign invalid")
    sign = admin.ok("/api/fs/list", path=folder)["content"][0]["sign"]
    assert sign == make_signature(read_key(admin), path, issued=read_issued(sign))
    assert visitor.http.get(make_url("d", path, sign)).content == b"here"


@pytest.mark.parametrize("route", ["d", "p"])
def test_without_sign_all_links_are_open(admin: Client, visitor: Client, folder: str, route: str) -> None:
    path = f"{folder}/f.txt"
    admin.put(path, b"here")
    with fixtures.settings(admin, sign_all="false"):
        entry = admin.ok("/api/fs/get", path=path)
        assert (entry["sign"], entry["raw_url"]) == ("", f"{admin.address}/p{path}")
        assert admin.ok("/api/fs/list", path=folder)["content"][0]["sign"] == ""
        assert visitor.http.get(make_url(route, path)).content == b"here"
        assert visitor.http.get(make_url(route, path, "nonsense")).content == b"here"
    check_page(visitor.http.get(make_url(route, path)), 401, "expire missing")


def test_a_storage_or_a_password_may_want_signatures_on_their_own(
    admin: Client, visitor: Client, folder: str, tmp_path: Path
) -> None:
    (tmp_path / "f.txt").write_text("here")
    admin.put(f"{folder}/f.txt", b"here")
    admin.put(f"{folder}/sub/f.txt", b"here")
    key = read_key(admin)
    with fixtures.settings(admin, sign_all="false"):
        with fixtures.local(admin, tmp_path, enable_sign=True) as mounted:
            check_page(visitor.http.get(make_url("d", f"{mounted}/f.txt")), 401, "expire missing")
            sign = admin.ok("/api/fs/get", path=f"{mounted}/f.txt")["sign"]
            assert sign == make_signature(key, f"{mounted}/f.txt", issued=read_issued(sign))
            assert visitor.http.get(make_url("d", f"{mounted}/f.txt", sign)).content == b"here"
        with fixtures.meta(admin, folder, password="sesame", p_sub=True):
            for path in (f"{folder}/f.txt", f"{folder}/sub/f.txt"):
                check_page(visitor.http.get(make_url("p", path)), 401, "expire missing")
                sign = admin.ok("/api/fs/get", path=path)["sign"]
                assert sign == make_signature(key, path, issued=read_issued(sign))
                assert visitor.http.get(make_url("p", path, sign)).content == b"here"


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("{0}/none", 404, fixtures.NOTHING_THERE),
        ("{0}", 500, "this is not a file"),
        ("/no-such-mount/x", 500, fixtures.NOT_MOUNTED),
    ],
)
@pytest.mark.parametrize("route", ["d", "p"])
def test_what_cannot_be_downloaded_is_a_failure_page(
    admin: Client, visitor: Client, folder: str, route: str, path: str, status: int, message: str
) -> None:
    path = path.format(folder)
    address = make_url(route, path, make_signature(read_key(admin), path))
    check_page(visitor.http.get(address), status, message)
    head = visitor.http.head(address)
    assert (head.status_code, head.content) == (status, b"")


def test_a_failure_page_runs_nothing_and_names_no_address(admin: Client, visitor: Client) -> None:
    path = "/<script>alert(1)</script>/10.20.30.40"
    answer = visitor.http.get("/openlist" + make_url("d", path, make_signature(read_key(admin), path)))
    assert answer.status_code == 500
    assert "<script>" not in answer.text
    assert "&lt;script&gt;" in answer.text
    assert "10.20.30.40" not in answer.text
    assert "*" * len("10.20.30.40") in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_only_get_and_head_are_answered(visitor: Client, letters: str) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        answer = visitor.http.request(method, letters)
        assert LETTERS not in answer.content
        assert answer.status_code in (404, 405)
