"""The page at `/` and beside it: our own page, another front end, or nothing."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from mangrove import configuration
from mangrove.standalone import docs
from mangrove.standalone.docs import open_page
from mangrove.standalone.gateway import Gateway
from mangrove.standalone.template import ROOT
from mangrove.web.page import FrontEndFolder

HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
PAGE_HTML = """<html><head><!-- customize head --><meta name="theme-color" content="#1890ff" /><title>Mangrove</title>
<script type="module" src="/@assets/app-1.js"></script></head><body><!-- customize body --></body></html>"""
FAMILY = """<head><!-- customize head --><link href="https://res.oplist.org/logo/logo.svg"><title>Loading...</title>
<img src="https://res.oplist.org/logo/logo.png"><script>window.CONFIG = {cdn: undefined, base_path: undefined,
api: undefined, main_color: undefined}</script></head><!-- customize body -->"""


class Settings(dict[str, str]):
    """Stands for the settings of a snapshot."""


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    values = Settings(
        site_title="A <b> & C", main_color="#00ff00", logo="/logo.svg\n/dark.svg", favicon="/icon.svg",
        customize_head="", customize_body="",
    )  # fmt: skip

    class Snapshot:
        settings = values

    async def fresh() -> Snapshot:
        return Snapshot()

    monkeypatch.setattr(configuration, "get", fresh)
    return values


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FrontEndFolder:
    folder = make_front_end(tmp_path / "dist", PAGE_HTML)
    (folder / "@assets").mkdir()
    (folder / "@assets" / "app-1.js").write_text("plain")
    (folder / "@assets" / "app-1.js.br").write_text("brotli")
    (folder / "@assets" / "app-1.js.gz").write_bytes(gzip.compress(b"plain"))
    (tmp_path / "secret").write_text("secret")
    monkeypatch.setattr(docs, "BUILT", folder)
    page_made = open_page("")
    assert page_made is not None
    return page_made


def make_front_end(folder: Path, index: str) -> Path:
    folder.mkdir()
    (folder / "index.html").write_text(index)
    return folder


def send(
    front_end: FrontEndFolder | None, path: str, method: str = "GET", headers: Mapping[str, str] = HTML
) -> httpx.Response:
    gateway = Gateway(front_end)

    async def go() -> httpx.Response:
        url = httpx.URL("http://mangrove").copy_with(raw_path=path.encode())
        async with httpx.AsyncClient(transport=httpx.ASGITransport(gateway)) as client:
            return await client.request(method, url, headers=headers)

    return asyncio.run(go())


@pytest.mark.parametrize(
    "path", ["/", "/@", "/@/files/a", "/@login", "/@manage/users", "/files/a.txt", "/x/%ff", "/docs/x"]
)
def test_what_a_person_opens_is_the_page(settings: Settings, ours: FrontEndFolder, path: str) -> None:
    answer = send(ours, path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "<title>A &lt;b&gt; &amp; C</title>" in answer.text
    assert 'content="#00ff00"' in answer.text
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-content-type-options"] == "nosniff"
    head = send(ours, path, "HEAD")
    assert (head.text, head.headers["content-length"]) == ("", answer.headers["content-length"])


def test_page_policy_allows_no_inline_script_eval_or_foreign_frame(settings: Settings, ours: FrontEndFolder) -> None:
    policy = parse_policy(send(ours, "/"))
    assert policy["default-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["object-src"] == policy["base-uri"] == "'none'"
    assert policy["frame-src"] == "'self' blob:"
    assert "script-src" not in policy and "connect-src" not in policy
    assert not any("unsafe" in value for value in policy.values())


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [("GET", "/", {"accept": "application/json"}), ("GET", "/none", {"accept": "*/*"}), ("GET", "/openlist/", HTML),
     ("POST", "/", HTML), ("GET", "/api/none", HTML), ("GET", "/d/", HTML), ("GET", "/openlist/api/none", HTML),
     ("GET", "/@assets/none.js", HTML), ("GET", "/@assets/", HTML)],
)  # fmt: skip
def test_programs_and_what_is_not_for_people_keep_the_default(
    settings: Settings, ours: FrontEndFolder, method: str, path: str, headers: dict[str, str]
) -> None:
    assert is_no_route(send(ours, path, method, headers))


@pytest.mark.parametrize(
    "path",
    ["/@assets/../../secret", "/@assets/..%2f..%2fsecret", "/../secret", "/@assets/%2e%2e/%2e%2e/secret",
     "/@assets//../../secret", "/@assets/..\\..\\secret", "/@assets/app-1.js/../../../secret", "/@assets/app-1.js%00"],
)  # fmt: skip
def test_nothing_outside_of_the_folder_is_served(settings: Settings, ours: FrontEndFolder, path: str) -> None:
    answer = send(ours, path, headers={})
    assert is_no_route(answer)


@pytest.mark.parametrize(
    ("accepted", "encoding", "content"),
    [("gzip, deflate, br, zstd", "br", b"brotli"), ("gzip;q=1.0", "gzip", b"plain"), ("", None, b"plain"),
     ("identity", None, b"plain")],
)  # fmt: skip
def test_assets_are_compressed_as_the_browser_takes_them_and_kept_for_ever(
    ours: FrontEndFolder, accepted: str, encoding: str | None, content: bytes
) -> None:
    answer = send(ours, "/@assets/app-1.js", "HEAD", {"accept-encoding": accepted})
    assert answer.headers.get("content-encoding") == encoding
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert "accept-encoding" in answer.headers["vary"]
    assert answer.headers["content-type"].startswith("text/javascript")
    if encoding != "br":  # the client here cannot read it
        assert send(ours, "/@assets/app-1.js", "GET", {"accept-encoding": accepted}).content == content


def test_a_page_that_is_built_anew_is_taken_up(settings: Settings, ours: FrontEndFolder, tmp_path: Path) -> None:
    built = tmp_path / "dist"
    (built / "@assets" / "app-2.js").write_text("newer")
    assert is_no_route(send(ours, "/@assets/app-2.js", headers={}))
    (built / "index.html").write_text(PAGE_HTML.replace("app-1", "app-2"))
    assert "app-2" in send(ours, "/").text
    assert send(ours, "/@assets/app-2.js", headers={}).text == "newer"
    (built / "index.html").unlink()
    assert "app-2" in send(ours, "/").text


def test_the_frame_for_pages_of_users_has_no_origin_and_loads_nothing(ours: FrontEndFolder) -> None:
    source = ROOT / "page" / "public" / "@assets" / "frame.html"
    (docs.BUILT / "@assets" / "frame.html").write_text(source.read_text())
    answer = send(open_page(""), "/@assets/frame.html", headers={})
    assert answer.headers["content-security-policy"] == "sandbox allow-scripts; frame-ancestors 'self'"
    assert answer.headers["x-frame-options"] == "SAMEORIGIN"
    assert answer.headers["cache-control"] == "no-cache"
    script = re.findall(r"<script>(.*?)</script>", answer.text, re.S)
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    policy = dict(
        part.split(" ", 1) for part in re.findall(r'content="(default-src [^"]+)"', answer.text)[0].split("; ")
    )
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert policy["script-src"] == f"'sha256-{digest}'"
    assert not any("http" in value or "*" in value or "'self'" in value for value in policy.values())


def test_the_frame_for_readers_runs_scripts_and_reaches_no_address(ours: FrontEndFolder) -> None:
    source = ROOT / "page" / "public" / "@assets" / "reader.html"
    (docs.BUILT / "@assets" / "reader.html").write_text(source.read_text())
    answer = send(open_page(""), "/@assets/reader.html", headers={})
    assert answer.headers["content-security-policy"] == "sandbox allow-scripts; frame-ancestors 'self'"
    script = re.findall(r"<script>(.*?)</script>", answer.text, re.S)
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    policy = dict(
        part.split(" ", 1) for part in re.findall(r'content="(default-src [^"]+)"', answer.text)[0].split("; ")
    )
    assert policy == {
        "default-src": "'none'",
        "script-src": f"'sha256-{digest}' 'wasm-unsafe-eval'",
        "worker-src": "blob:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_custom_scripts_run_by_a_nonce_of_one_answer(settings: Settings, ours: FrontEndFolder) -> None:
    settings["customize_head"] = "<script>count()</script>"
    settings["customize_body"] = '<SCRIPT src="https://stats.example/x.js"></SCRIPT><scripture>'
    answers = [send(ours, "/"), send(ours, "/")]
    nonces = [re.findall(r'<script nonce="([^"]+)"', answer.text, re.I) for answer in answers]
    assert [len(values) for values in nonces] == [3, 3]  # two of the administrator, one of ours
    assert len(set(nonces[0])) == 1 and nonces[0] != nonces[1]
    policy = parse_policy(answers[0])
    assert policy["script-src"] == f"'self' 'nonce-{nonces[0][0]}' 'strict-dynamic'"
    assert policy["frame-ancestors"] == "'none'"
    assert "<scripture>" in answers[0].text


@pytest.mark.parametrize("path", ["/@manage", "/@manage/settings"])
def test_management_shows_no_custom_content(settings: Settings, ours: FrontEndFolder, path: str) -> None:
    settings["customize_head"] = "<script>broken(</script>"
    answer = send(ours, path)
    assert "broken" not in answer.text
    assert "script-src" not in parse_policy(answer)


def test_a_value_that_looks_like_a_placeholder_stays_as_it_is(settings: Settings, ours: FrontEndFolder) -> None:
    settings["site_title"] = "<!-- customize body -->"
    settings["customize_body"] = "<p>twice</p>"
    assert send(ours, "/").text.count("twice") == 1


def test_another_front_end_has_its_placeholders_filled(settings: Settings, tmp_path: Path) -> None:
    folder = make_front_end(tmp_path / "other", FAMILY)
    (folder / "assets").mkdir()
    (folder / "assets" / "a.css").write_text("a {}")
    settings["main_color"] = "</script>'\""
    settings["customize_head"] = "<meta>"
    other = open_page(str(folder))
    answer = send(other, "/some/folder")
    assert "cdn: ''" in answer.text and "base_path: '/'" in answer.text
    assert "api: location.origin + '/openlist'" in answer.text
    assert "\\u003c/script>'\\\"" in answer.text
    assert "<title>A &lt;b&gt; &amp; C</title>" in answer.text and "<head><meta>" in answer.text
    assert 'href="/icon.svg"' in answer.text and 'src="/logo.svg"' in answer.text
    assert answer.headers["content-security-policy"] == "frame-ancestors 'none'"
    style = send(other, "/assets/a.css", headers={})
    assert (style.text, style.headers["cache-control"]) == ("a {}", "public, max-age=15552000")
    assert is_no_route(send(other, "/index.html", headers={}))


def test_none_and_a_page_that_is_not_built_leave_the_api_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs, "BUILT", tmp_path)
    assert open_page("") is None
    assert open_page("none") is None
    for headers in (HTML, {"accept": "*/*"}):
        answer = send(None, "/", headers=headers)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "Mangrove is running without its page" in answer.text and "Node.js" in answer.text
    assert is_no_route(send(None, "/files"))
    assert is_no_route(send(None, "/", headers={"accept": "application/json"}))


def test_monitor_that_accepts_anything_gets_the_page_at_the_root(settings: Settings, ours: FrontEndFolder) -> None:
    for headers in ({"accept": "*/*"}, {"accept": "text/plain, */*;q=0.5"}):
        assert send(ours, "/", headers=headers).headers["content-type"] == "text/html; charset=utf-8"
        assert is_no_route(send(ours, "/files", headers=headers))


def test_a_folder_without_a_front_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no index\.html"):
        open_page(str(tmp_path))


def is_no_route(answer: httpx.Response) -> bool:
    return bool(answer.json()["message"].startswith("no route for "))


def parse_policy(answer: httpx.Response) -> dict[str, str]:
    return dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
