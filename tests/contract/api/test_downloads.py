"""Downloads over HTTP: validators, headers, bytes that never become a page, storages that redirect."""

from __future__ import annotations

import re
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
import pytest

from tests import servers
from tests.contract.api import fixtures
from tests.contract.api.download_client import LETTERS, check_page, make_signature, make_url, read_key
from tests.contract.api.fixtures import NOTHING_THERE
from tests.support.service import Client, Service

DIRECT = {"referrer-policy": "no-referrer", "cache-control": "max-age=0, no-cache, no-store, must-revalidate"}
MODIFIED_TIME, EARLIER_TIME, LATER_TIME = 1577934245, 1577934000, 1577935000


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"if-none-match": "{etag}"}, 304),
        ({"if-none-match": "W/{etag}"}, 304),
        ({"if-none-match": '"other", {etag}'}, 304),
        ({"if-none-match": "*"}, 304),
        ({"if-none-match": '"other"'}, 200),
        ({"if-none-match": '"other"', "if-modified-since": "{then}"}, 200),
        ({"if-modified-since": "{then}"}, 304),
        ({"if-modified-since": "{later}"}, 304),
        ({"if-modified-since": "{before}"}, 200),
        ({"if-modified-since": "nonsense"}, 200),
        ({"if-match": "{etag}"}, 200),
        ({"if-match": "*"}, 200),
        ({"if-match": '"other"'}, 412),
        ({"if-match": "W/{etag}"}, 412),
        ({"if-unmodified-since": "{then}"}, 200),
        ({"if-unmodified-since": "{before}"}, 412),
        ({"if-match": "{etag}", "if-unmodified-since": "{before}"}, 200),
        ({"range": "bytes=0-1", "if-range": "{etag}"}, 206),
        ({"range": "bytes=0-1", "if-range": '"other"'}, 200),
        ({"range": "bytes=0-1", "if-range": "W/{etag}"}, 200),
        ({"range": "bytes=0-1", "if-range": "{then}"}, 206),
        ({"range": "bytes=0-1", "if-range": "{later}"}, 200),
        ({"range": "bytes=0-1", "if-none-match": "{etag}"}, 304),
        ({"range": "bytes=99-", "if-range": '"other"'}, 200),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_conditions_are_kept_in_their_order(
    visitor: Client, letters: str, method: str, headers: dict[str, str], status: int
) -> None:
    values = {
        "etag": visitor.http.head(letters).headers["etag"],
        "then": formatdate(MODIFIED_TIME, usegmt=True),
        "before": formatdate(EARLIER_TIME, usegmt=True),
        "later": formatdate(LATER_TIME, usegmt=True),
    }
    sent = {name: value.format(**values) for name, value in headers.items()}
    answer = visitor.http.request(method, letters, headers=sent)
    assert answer.status_code == status
    assert answer.headers["etag"] == values["etag"]
    if status in (304, 412) or method == "HEAD":
        assert answer.content == b""
    else:
        assert answer.content == (LETTERS if status == 200 else LETTERS[:2])
    if status == 304:
        assert "content-type" not in answer.headers
        assert "last-modified" not in answer.headers


def test_the_etag_is_strong_and_changes_with_the_content(admin: Client, folder: str) -> None:
    tags = []
    for content in (b"one", b"two", b"three"):
        admin.put(f"{folder}/f", content)
        tags.append(admin.bytes(f"{folder}/f").headers["etag"])
    assert len(set(tags)) == 3
    assert all(re.fullmatch(r'"[0-9a-f]+(-[0-9a-f]+)+"', tag) for tag in tags)
    assert admin.bytes(f"{folder}/f").headers["etag"] == tags[-1]


@pytest.mark.parametrize(
    "name",
    [
        "two words.txt",
        "\u00fcn\u00ef \u540d\u524d \U0001f600.txt",
        'quo"te.txt',
        "semi;colon,'x'.txt",
        "per%cent%0d%0a.txt",
        "a\r\nX-Evil: 1\r\n\r\n.txt",
        "\x1b[31m.txt",
        "end\n",
    ],
)
def test_no_byte_of_a_name_leaves_its_header(service: Service, admin: Client, folder: str, name: str) -> None:
    (fixtures.disk(service, folder) / name).write_bytes(b"here")
    path = f"{folder}/{name}"
    answer = admin.http.get(make_url("d", path, make_signature(read_key(admin), path)))
    assert (answer.status_code, answer.content) == (200, b"here")
    coded = quote(name, safe="")
    assert answer.headers["content-disposition"] == f"attachment; filename=\"{coded}\"; filename*=utf-8''{coded}"
    assert "x-evil" not in answer.headers


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("page.html", "text/html; charset=utf-8"),
        ("PAGE.HTM", "text/html; charset=utf-8"),
        ("page.xhtml", "application/xhtml+xml"),
        ("pic.svg", "image/svg+xml"),
        ("code.js", "text/javascript; charset=utf-8"),
        ("book.pdf", "application/pdf"),
        ("app.apk", "application/vnd.android.package-archive"),
        ("no-extension", "application/octet-stream"),
        ("odd.qqqq", "application/octet-stream"),
        ("photo.png", "image/png"),
    ],
)
@pytest.mark.parametrize("route", ["d", "p"])
def test_nothing_that_is_stored_becomes_a_page_of_ours(
    admin: Client, visitor: Client, folder: str, route: str, name: str, kind: str
) -> None:
    path = f"{folder}/{name}"
    admin.put(path, b"<html><svg><script>alert(1)</script>", content_type="text/html")
    answer = visitor.http.get(make_url(route, path, make_signature(read_key(admin), path)))
    assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
    assert answer.headers["content-disposition"].startswith("attachment;")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"].startswith("sandbox;")
    assert "allow-scripts" not in answer.headers["content-security-policy"]
    ranged = visitor.http.get(str(answer.request.url), headers={"range": "bytes=0-5"})
    assert ranged.headers["content-security-policy"] == answer.headers["content-security-policy"]
    assert ranged.headers["content-disposition"] == answer.headers["content-disposition"]


def test_a_link_out_of_the_storage_is_not_followed(
    service: Service, admin: Client, visitor: Client, folder: str, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("outside")
    (fixtures.disk(service, folder) / "link").symlink_to(tmp_path / "secret")
    path = f"{folder}/link"
    check_page(visitor.http.get(make_url("d", path, make_signature(read_key(admin), path))), 404, NOTHING_THERE)


def test_a_storage_with_a_download_proxy_sends_browsers_there(admin: Client, visitor: Client, tmp_path: Path) -> None:
    (tmp_path / "a b.txt").write_text("here")
    proxy = "https://proxy.example/base\nhttps://second.example"
    with fixtures.local(admin, tmp_path, down_proxy_url=proxy) as mounted:
        sign = admin.ok("/api/fs/get", path=f"{mounted}/a b.txt")["sign"]
        there = f"https://proxy.example/base{mounted}/a%20b.txt?sign={sign}"
        assert admin.ok("/api/fs/get", path=f"{mounted}/a b.txt")["raw_url"] == there
        for route in ("d", "p"):
            answer = visitor.http.get(make_url(route, f"{mounted}/a b.txt", sign))
            assert (answer.status_code, answer.headers["location"]) == (302, there)
            inside = visitor.http.get(make_url(route, f"{mounted}/a b.txt", sign) + "&d")
            assert (inside.status_code, inside.content) == (200, b"here")
        check_page(visitor.http.get(make_url("p", f"{mounted}/a b.txt")), 401, "expire missing")
    with fixtures.local(admin, tmp_path, down_proxy_url=proxy, disable_proxy_sign=True) as mounted:
        there = f"https://proxy.example/base{mounted}/a%20b.txt"
        assert admin.ok("/api/fs/get", path=f"{mounted}/a b.txt")["raw_url"] == there


TREE = "d:\n  f.bin:4:1577934245:https://example.com/f.bin?x=1\n  t.txt:4:{0}/ping\n  b.bin:4:{0}/ping"


def test_a_storage_with_addresses_redirects_and_nobody_keeps_that(
    service: Service, admin: Client, visitor: Client
) -> None:
    with fixtures.mount(admin, "UrlTree", addition={"url_structure": TREE.format(service.address)}) as mounted:
        path = f"{mounted}/d/f.bin"
        entry = admin.ok("/api/fs/get", path=path)
        assert entry["raw_url"] == "https://example.com/f.bin?x=1"
        for method in ("GET", "HEAD"):
            answer = visitor.http.request(method, make_url("d", path, entry["sign"]))
            assert (answer.status_code, answer.headers["location"]) == (302, "https://example.com/f.bin?x=1")
            assert {name: answer.headers[name] for name in DIRECT} == DIRECT
        check_page(visitor.http.get(make_url("d", path)), 401, "expire missing")
        check_page(visitor.http.get(make_url("p", path, entry["sign"])), 403, "proxy not allowed")
        missing = f"{mounted}/d/none"
        check_page(
            visitor.http.get(make_url("d", missing, make_signature(read_key(admin), missing))),
            404,
            NOTHING_THERE,
        )


def test_head_is_not_sent_to_an_address_that_is_signed_for_get(
    s3: Callable[[], str], admin: Client, visitor: Client
) -> None:
    endpoint = s3()
    with fixtures.mount(admin, "S3", addition=servers.s3_options(endpoint, servers.make_bucket(endpoint))) as mounted:
        assert admin.put(f"{mounted}/f.txt", b"bytes")["code"] == 200
        url = make_url("d", f"{mounted}/f.txt", admin.ok("/api/fs/get", path=f"{mounted}/f.txt")["sign"])
        assert visitor.http.get(url).status_code == 302
        head = visitor.http.head(url)
        assert (head.status_code, head.headers["content-length"], head.content) == (200, "5", b"")
        assert head.headers["etag"]


def test_text_and_what_the_storage_wants_pass_through(service: Service, admin: Client, visitor: Client) -> None:
    key = read_key(admin)
    addition = {"url_structure": TREE.format(service.address), "allowed_hosts": "127.0.0.1"}
    with fixtures.mount(admin, "UrlTree", addition=addition) as mounted:
        text, other = f"{mounted}/d/t.txt", f"{mounted}/d/b.bin"
        answer = visitor.http.get(make_url("p", text, make_signature(key, text)))
        assert (answer.status_code, answer.content) == (200, b"pong")
        assert answer.headers["content-disposition"].startswith("attachment;")
        assert visitor.http.get(make_url("d", other, make_signature(key, other))).status_code == 302
        with fixtures.settings(admin, proxy_types="m3u8,url,bin"):
            assert visitor.http.get(make_url("d", other, make_signature(key, other))).content == b"pong"
            assert visitor.http.get(make_url("p", other, make_signature(key, other))).content == b"pong"
    with fixtures.mount(admin, "UrlTree", addition=addition, web_proxy=True) as mounted:
        other = f"{mounted}/d/b.bin"
        assert urlsplit(admin.ok("/api/fs/get", path=other)["raw_url"]).path == f"/p{other}"
        for route in ("d", "p"):
            answer = visitor.http.get(
                make_url(route, other, make_signature(key, other)), headers={"range": "bytes=1-2"}
            )
            assert (answer.status_code, answer.content) == (206, b"on")
    with fixtures.mount(admin, "UrlTree", addition=addition, webdav_policy="use_proxy_url") as mounted:
        other = f"{mounted}/d/b.bin"
        assert visitor.http.get(make_url("p", other, make_signature(key, other))).content == b"pong"
        assert visitor.http.get(make_url("d", other, make_signature(key, other))).status_code == 302


def test_parameters_are_handed_on_when_the_setting_says_so(service: Service, admin: Client, visitor: Client) -> None:
    with fixtures.mount(admin, "UrlTree", addition={"url_structure": TREE.format(service.address)}) as mounted:
        path = f"{mounted}/d/f.bin"
        address = make_url("d", path, make_signature(read_key(admin), path)) + "&openlist_ts=5&a=1%262&a=3"
        assert visitor.http.get(address).headers["location"] == "https://example.com/f.bin?x=1"
        with fixtures.settings(admin, forward_direct_link_params="true"):
            location = visitor.http.get(address).headers["location"]
            assert location == "https://example.com/f.bin?x=1&a=1%262&a=3"


def test_an_address_that_does_not_answer_is_a_failure_page(service: Service, admin: Client, visitor: Client) -> None:
    structure = {
        "url_structure": f"a.txt:4:{service.address}/no/such\nb.txt:4:http://127.0.0.1:9/x",
        "allowed_hosts": "127.0.0.1",
    }
    with fixtures.mount(admin, "UrlTree", addition=structure) as mounted:
        for name in ("a.txt", "b.txt"):
            path = f"{mounted}/{name}"
            answer = visitor.http.get(make_url("p", path, make_signature(read_key(admin), path)))
            assert (answer.status_code, answer.headers["content-type"]) == (500, "text/html; charset=utf-8")
            assert "127.0.0.1" not in answer.text


def test_a_storage_that_is_gone_serves_no_more(admin: Client, visitor: Client, tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("here")
    with fixtures.local(admin, tmp_path) as mounted:
        address = make_url("d", f"{mounted}/f.txt", make_signature(read_key(admin), f"{mounted}/f.txt"))
        assert visitor.http.get(address).content == b"here"
        rows = admin.get("/api/admin/storage/list")["data"]["content"]
        number = next(row["id"] for row in rows if row["mount_path"] == mounted)
        admin.ok("/api/admin/storage/disable", params={"id": number})
        check_page(visitor.http.get(address), 500, fixtures.NOT_MOUNTED)
        admin.ok("/api/admin/storage/enable", params={"id": number})
        assert visitor.http.get(address).content == b"here"
    check_page(visitor.http.get(address), 500, fixtures.NOT_MOUNTED)


def test_a_client_that_leaves_in_the_middle_harms_nobody(admin: Client, visitor: Client, folder: str) -> None:
    path = f"{folder}/large.bin"
    admin.put(path, bytes(30_000_000))
    address = make_url("p", path, make_signature(read_key(admin), path))
    for _ in range(5):
        with httpx.stream("GET", visitor.address + address, timeout=60) as answer:
            assert len(next(answer.iter_raw(1000))) == 1000
    assert len(visitor.http.get(address).content) == 30_000_000
