"""Downloads over HTTP: signatures, ranges, validators, and bytes that never become a page (behaviour 9)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import re
import time
from email.parser import BytesParser
from email.utils import formatdate
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
import pytest
from PIL import Image

from tests.contract.api import fixtures
from tests.service import Client, Service

LETTERS = b"abcdefghijklmnopqrstuvwxyz"
DIRECT = {"referrer-policy": "no-referrer", "cache-control": "max-age=0, no-cache, no-store, must-revalidate"}
MISSING = "failed link: failed to get file: failed to get obj: object not found"


def make_signature(key: str, data: str, expires: int = 0) -> str:
    """A signature made from the rules alone (behaviour 9.2)."""
    digest = hmac.new(key.encode(), f"{data}:{expires}".encode(), hashlib.sha256).digest()
    return f"{base64.urlsafe_b64encode(digest).decode()}:{expires}"


def read_key(admin: Client) -> str:
    return str(admin.get("/api/admin/setting/get", key="token")["data"]["value"])


def make_url(route: str, path: str, sign: str | None = None) -> str:
    return f"/{route}{quote(path)}" + ("" if sign is None else f"?sign={quote(sign)}")


def check_page(answer: httpx.Response, status: int, message: str) -> None:
    """The answer must be the failure page of that status and message."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert f"<h1>{status} {httpx.codes.get_reason_phrase(status)}</h1><hr><p>{message}</p>" in answer.text


@pytest.fixture
def letters(admin: Client, folder: str) -> str:
    """The signed address of a file with the alphabet in it, last changed in 2020."""
    assert admin.put(f"{folder}/letters.txt", LETTERS, last_modified="1577934245000")["code"] == 200
    return make_url("p", f"{folder}/letters.txt", admin.ok("/api/fs/get", path=f"{folder}/letters.txt")["sign"])


@pytest.fixture(scope="module")
def visitor(service: Service) -> Client:
    """Somebody without a token."""
    return service.nobody()


def test_the_signature_rule_agrees_with_its_published_vectors() -> None:
    path = "/local/a b.txt"
    assert make_signature("dev_token", path) == "oZVEYK8_NpK5BAeDecwy2qXCLWX1nNHjO-J7CbGXtMA=:0"
    assert make_signature("dev_token", path, 1893456000) == "2UqK-7kzYXuAQFZOQNOZRp10n-OtuLDmO4FWp9ow7m4=:1893456000"


def test_links_are_signed_by_the_rule(admin: Client, folder: str) -> None:
    admin.put(f"{folder}/ü b+c.txt", b"x")
    expected = make_signature(read_key(admin), f"{folder}/ü b+c.txt")
    assert admin.ok("/api/fs/list", path=folder)["content"][0]["sign"] == expected
    assert admin.ok("/api/fs/get", path=f"{folder}/ü b+c.txt")["sign"] == expected


@pytest.mark.parametrize("route", ["d", "p", "openlist/d", "openlist/p"])
def test_whoever_has_a_signed_link_gets_the_bytes(visitor: Client, letters: str, route: str) -> None:
    address = letters.replace("/p", f"/{route}", 1)
    answer = visitor.http.get(address)
    assert (answer.status_code, answer.content) == (200, LETTERS)
    head = visitor.http.head(address)
    assert (head.status_code, head.content) == (200, b"")
    shown = {name: value for name, value in head.headers.items() if name != "date"}
    assert shown == {name: value for name, value in answer.headers.items() if name != "date"}
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
        "without": make_signature("", path),
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
    assert sign == make_signature(read_key(admin), path, ends)
    assert visitor.http.get(make_url("d", path, sign)).content == b"here"
    assert admin.ok("/api/fs/get", path=path)["sign"].endswith(":0")


def test_a_new_permanent_token_ends_all_old_links(admin: Client, visitor: Client, folder: str) -> None:
    path = f"{folder}/f.txt"
    admin.put(path, b"here")
    old = admin.ok("/api/fs/get", path=path)["sign"]
    token = admin.ok("/api/admin/setting/reset_token")
    check_page(visitor.http.get(make_url("d", path, old)), 401, "sign invalid")
    assert admin.ok("/api/fs/list", path=folder)["content"][0]["sign"] == make_signature(token, path)
    assert visitor.http.get(make_url("d", path, make_signature(token, path))).content == b"here"


@pytest.mark.parametrize("route", ["d", "p"])
def test_without_sign_all_links_are_open(admin: Client, visitor: Client, folder: str, route: str) -> None:
    path = f"{folder}/f.txt"
    admin.put(path, b"here")
    with fixtures.settings(admin, sign_all="false"):
        found = admin.ok("/api/fs/get", path=path)
        assert (found["sign"], found["raw_url"]) == ("", f"{admin.address}/p{path}")
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
            assert sign == make_signature(key, f"{mounted}/f.txt")
            assert visitor.http.get(make_url("d", f"{mounted}/f.txt", sign)).content == b"here"
        with fixtures.meta(admin, folder, password="sesame", p_sub=True):
            for path in (f"{folder}/f.txt", f"{folder}/sub/f.txt"):
                check_page(visitor.http.get(make_url("p", path)), 401, "expire missing")
                assert admin.ok("/api/fs/get", path=path)["sign"] == make_signature(key, path)
                assert visitor.http.get(make_url("p", path, make_signature(key, path))).content == b"here"


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("{0}/none", 404, MISSING),
        ("{0}", 500, "failed link: not a file"),
        ("/no-such-mount/x", 500, "storage not found; rawPath: /no-such-mount/x"),
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
    answer = visitor.http.get(make_url("d", path, make_signature(read_key(admin), path)))
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


@pytest.mark.parametrize(
    ("wanted", "start", "stop"),
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
def test_a_range_is_answered_with_its_bytes(visitor: Client, letters: str, wanted: str, start: int, stop: int) -> None:
    answer = visitor.http.get(letters, headers={"range": wanted})
    assert (answer.status_code, answer.content) == (206, LETTERS[start:stop])
    assert answer.headers["content-range"] == f"bytes {start}-{stop - 1}/26"
    assert answer.headers["content-length"] == str(stop - start)
    head = visitor.http.head(letters, headers={"range": wanted})
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


@pytest.mark.parametrize("wanted", ["bytes=0-25,0-25", "bytes=" + ",".join(["0-0"] * 100), "bytes=0-,1-,2-"])
def test_ranges_that_want_more_than_the_file_get_the_file(visitor: Client, letters: str, wanted: str) -> None:
    answer = visitor.http.get(letters, headers={"range": wanted})
    assert (answer.status_code, answer.content) == (200, LETTERS)


@pytest.mark.parametrize(
    ("wanted", "text"),
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
def test_a_range_that_cannot_be_is_a_416(visitor: Client, letters: str, wanted: str, text: str) -> None:
    answer = visitor.http.get(letters, headers={"range": wanted})
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


THEN, BEFORE, LATER = 1577934245, 1577934000, 1577935000


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
        "then": formatdate(THEN, usegmt=True),
        "before": formatdate(BEFORE, usegmt=True),
        "later": formatdate(LATER, usegmt=True),
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
    assert all(re.fullmatch(r'"[0-9a-f]+-[0-9a-f]+"', tag) for tag in tags)
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
    check_page(visitor.http.get(make_url("d", path, make_signature(read_key(admin), path))), 404, MISSING)


def test_a_storage_with_a_download_proxy_sends_browsers_there(admin: Client, visitor: Client, tmp_path: Path) -> None:
    (tmp_path / "a b.txt").write_text("here")
    proxy = "https://proxy.example/base\nhttps://second.example"
    with fixtures.local(admin, tmp_path, down_proxy_url=proxy) as mounted:
        sign = make_signature(read_key(admin), f"{mounted}/a b.txt")
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
        found = admin.ok("/api/fs/get", path=path)
        assert found["raw_url"] == "https://example.com/f.bin?x=1"
        for method in ("GET", "HEAD"):
            answer = visitor.http.request(method, make_url("d", path, found["sign"]))
            assert (answer.status_code, answer.headers["location"]) == (302, "https://example.com/f.bin?x=1")
            assert {name: answer.headers[name] for name in DIRECT} == DIRECT
        check_page(visitor.http.get(make_url("d", path)), 401, "expire missing")
        check_page(visitor.http.get(make_url("p", path, found["sign"])), 403, "proxy not allowed")
        missing = f"{mounted}/d/none"
        check_page(visitor.http.get(make_url("d", missing, make_signature(read_key(admin), missing))), 404, MISSING)


def test_text_and_what_the_storage_wants_pass_through(service: Service, admin: Client, visitor: Client) -> None:
    key, addition = read_key(admin), {"url_structure": TREE.format(service.address)}
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
    structure = {"url_structure": f"a.txt:4:{service.address}/no/such\nb.txt:4:http://127.0.0.1:9/x"}
    with fixtures.mount(admin, "UrlTree", addition=structure) as mounted:
        for name in ("a.txt", "b.txt"):
            path = f"{mounted}/{name}"
            answer = visitor.http.get(make_url("p", path, make_signature(read_key(admin), path)))
            assert (answer.status_code, answer.headers["content-type"]) == (500, "text/html; charset=utf-8")
            assert "127.0.0.1" not in answer.text


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
        for name, message in (("fake.png", "not a picture"), ("f.txt", "not implement")):
            path = f"{mounted}/{name}"
            check_page(visitor.http.get(make_url("d", path, make_signature(key, path)) + "&type=thumb"), 500, message)
        path = f"{mounted}/active.svg"
        answer = visitor.http.get(make_url("d", path, make_signature(key, path)) + "&type=thumb")
        assert answer.headers["content-security-policy"].startswith("sandbox;")
        assert answer.headers["content-disposition"].startswith("attachment")
    admin.put(f"{folder}/p.png", make_picture(10, 10))
    assert admin.ok("/api/fs/list", path=folder)["content"][0]["thumb"] == ""
    address = make_url("d", f"{folder}/p.png", make_signature(key, f"{folder}/p.png")) + "&type=thumb"
    check_page(visitor.http.get(address), 500, "not implement")


def test_a_picture_of_too_many_pixels_is_not_opened(admin: Client, visitor: Client, tmp_path: Path) -> None:
    out = io.BytesIO()
    Image.new("1", (9000, 9000)).save(out, "PNG")
    (tmp_path / "bomb.png").write_bytes(out.getvalue())
    with fixtures.local(admin, tmp_path, addition={"thumbnail": True}) as mounted:
        path = f"{mounted}/bomb.png"
        address = make_url("d", path, make_signature(read_key(admin), path)) + "&type=thumb"
        check_page(visitor.http.get(address), 500, "the picture is too large for a thumbnail")


def test_a_storage_that_is_gone_serves_no_more(admin: Client, visitor: Client, tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("here")
    with fixtures.local(admin, tmp_path) as mounted:
        address = make_url("d", f"{mounted}/f.txt", make_signature(read_key(admin), f"{mounted}/f.txt"))
        assert visitor.http.get(address).content == b"here"
        rows = admin.get("/api/admin/storage/list")["data"]["content"]
        number = next(row["id"] for row in rows if row["mount_path"] == mounted)
        admin.ok("/api/admin/storage/disable", params={"id": number})
        check_page(visitor.http.get(address), 500, f"storage not found; rawPath: {mounted}/f.txt")
        admin.ok("/api/admin/storage/enable", params={"id": number})
        assert visitor.http.get(address).content == b"here"
    check_page(visitor.http.get(address), 500, f"storage not found; rawPath: {mounted}/f.txt")


def test_a_client_that_leaves_in_the_middle_harms_nobody(admin: Client, visitor: Client, folder: str) -> None:
    path = f"{folder}/large.bin"
    admin.put(path, bytes(30_000_000))
    address = make_url("p", path, make_signature(read_key(admin), path))
    for _ in range(5):
        with httpx.stream("GET", visitor.address + address) as answer:
            assert len(next(answer.iter_raw(1000))) == 1000
    assert len(visitor.http.get(address).content) == 30_000_000
