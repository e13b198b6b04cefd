"""The page at `/`: the built-in page, another front end, or none. Its other files are below `/@assets/`."""

from __future__ import annotations

import json
import mimetypes
import re
import secrets
from contextlib import suppress
from html import escape
from pathlib import Path

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.types import Scope

from mangrove import configuration
from mangrove.configuration.values import Settings
from mangrove.core import runtime
from mangrove.core.config import config
from mangrove.web.flavours import OPENLIST_PREFIX, ApiFlavour

API_PREFIXES = ("/api/", "/d/", "/p/", "/ad/", "/ap/", "/ae/", "/zip/", "/dav/")
ASSETS = "/@assets/"
ENCODINGS = {"br": ".br", "gzip": ".gz"}  # the first encoding that the browser accepts is used
ASSET_CACHING = "public, max-age=31536000, immutable"  # the name of an asset has the hash of its content
FILE_CACHING = "public, max-age=15552000"
POLICY = {
    "default-src": "'self'",
    "img-src": "'self' data: blob: http: https:",  # storages may redirect browsers to their own links
    "media-src": "'self' blob: http: https:",
    "frame-src": "'self' blob:",  # the browser shows pages of users, and PDF files
    "object-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
}
CUSTOM_POLICY = {  # for custom content of an administrator, which may include scripts that fetch files
    "style-src": "'self' 'unsafe-inline' https:",
    "font-src": "'self' data: https:",
    "connect-src": "'self' https:",
    "frame-src": "'self' blob: https:",
}
HEADERS = {
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-dns-prefetch-control": "off",  # names in links of a user's text are not resolved before the link is followed
    "x-frame-options": "DENY",
}
# show a page of a user, and read a file, inside the page of this service; each has a content policy of its own
FRAMES = frozenset({f"{ASSETS}frame.html", f"{ASSETS}reader.html"})
FRAME_HEADERS = {
    "cache-control": "no-cache",
    "content-security-policy": "sandbox allow-scripts; frame-ancestors 'self'",
    "x-frame-options": "SAMEORIGIN",
}
NO_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Mangrove</title>
<h1>Mangrove is running without its page</h1>
<p>The API works; <a href="/docs">its description</a> is here. The page is missing because the service was started
with <code>--page none</code>, or because the page was not built. To build it, install Node.js 20.19 or newer with npm
and run <code>make serve</code> again. If the build failed, <code>page/build.log</code> gives the reason.</p></html>
"""
SCRIPT = re.compile(r"<script(?=[\s>])", re.IGNORECASE)
FAMILY_LOGO = re.compile(r"https://res\.oplist\.org/logo/logo\.(?:svg|png)")


class FrontEndFolder:
    """A front end in a folder: `index.html` for every address that a person opens, and the other files."""

    def __init__(self, folder: Path, is_ours: bool) -> None:
        """Raise ValueError if the folder has no front end. `is_ours`: it is the front end of this project."""
        self._folder = folder
        self._is_ours = is_ours
        self._built_ns = 0
        try:
            self._read()
        except (OSError, UnicodeError):
            raise ValueError(f"{folder} has no index.html") from None

    def _read(self) -> None:
        """Read the folder again if the front end was built since the last read."""
        index = self._folder / "index.html"
        built_ns = index.stat().st_mtime_ns
        if built_ns != self._built_ns:
            self._index = index.read_text()
            files = (path for path in self._folder.rglob("*") if path.is_file())
            self._files = frozenset(f"/{path.relative_to(self._folder).as_posix()}" for path in files)
            self._built_ns = built_ns

    async def find(self, method: str, path: str, headers: Headers, meta: str | None = None) -> Response | None:
        """Answer a request without a route; None if it is not for the page.

        `meta`: elements for the head of the page of a share link, which every client may have. What shows a
        preview of a link names no type.
        """
        if method not in ("GET", "HEAD"):
            return None
        if path in self._files and path != "/index.html":
            return self._serve_file(path, headers)
        is_accepted = meta is not None or _accepts_page(path, headers)
        if not is_accepted or path.startswith((*API_PREFIXES, ASSETS)):
            return None
        with suppress(OSError):  # during a build; the previous index still names its files
            self._read()
        answer = self._make_index(path, (await configuration.get()).settings, meta or "")
        if method == "HEAD":
            answer.body = b""
        return answer

    def _serve_file(self, path: str, headers: Headers) -> Response:
        kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
        caching = ASSET_CACHING if path.startswith(ASSETS) else FILE_CACHING
        answer_headers = {**HEADERS, "cache-control": caching, "vary": "accept-encoding"}
        if path in FRAMES:
            answer_headers |= FRAME_HEADERS
        accepted = {part.split(";")[0].strip() for part in headers.get("accept-encoding", "").split(",")}
        for encoding, ending in ENCODINGS.items():
            if encoding in accepted and path + ending in self._files:
                answer_headers["content-encoding"] = encoding
                return FileResponse(f"{self._folder}{path}{ending}", headers=answer_headers, media_type=kind)
        return FileResponse(f"{self._folder}{path}", headers=answer_headers, media_type=kind)

    def _make_index(self, path: str, settings: Settings, meta: str) -> Response:
        is_managing = path == "/@manage" or path.startswith("/@manage/")  # a broken customisation is repaired here
        head = "" if is_managing else settings["customize_head"]
        body = "" if is_managing else settings["customize_body"]
        if self._is_ours:
            text, policy = _fill_ours(self._index, settings, head, body, meta)
        else:
            text, policy = _fill_family(self._index, settings, meta + head, body), "frame-ancestors 'none'"
        headers = {**HEADERS, "cache-control": "no-cache", "content-security-policy": policy}
        return HTMLResponse(text, headers=headers)


class FrontEnd:
    """Return the page of this process; in the cloud the one built into the function."""

    def __init__(self) -> None:
        self.page: FrontEndFolder | None = None
        folder = config().page
        if folder is not None:
            with suppress(ValueError):
                self.page = FrontEndFolder(folder, is_ours=True)


def _accepts_page(path: str, headers: Headers) -> bool:
    """True if a client accepts the page. A monitor or a preview of links, which accepts anything, gets it at `/`."""
    accept = headers.get("accept", "*/*")
    return "text/html" in accept or (path == "/" and "*/*" in accept)


async def show(scope: Scope, meta: str | None = None) -> Response:
    """Answer a request with the page; 404 if it has no such file. The page uses the native flavour only.

    Without a page, `/` says how to get it. `meta` as for `FrontEndFolder.find`.
    """
    page, answer = runtime.get(FrontEnd).page, None
    if scope["state"].get("flavour") is not ApiFlavour.OPENLIST:
        headers = Headers(scope=scope)
        if page is not None:
            answer = await page.find(scope["method"], scope["path"], headers, meta)
        elif scope["path"] == "/" and _accepts_page("/", headers):
            answer = HTMLResponse(NO_PAGE, headers=HEADERS | {"content-security-policy": "default-src 'none'"})
    if answer is None:
        raise HTTPException(404)
    return answer


def _fill_ours(text: str, settings: Settings, head: str, body: str, meta: str) -> tuple[str, str]:
    """Return index.html with the settings, and its policy. Custom scripts run by a nonce of this answer."""
    policy = dict(POLICY)
    if head or body:
        nonce = secrets.token_urlsafe(16)
        policy |= {**CUSTOM_POLICY, "script-src": f"'self' 'nonce-{nonce}' 'strict-dynamic'"}
        head, body, text = (SCRIPT.sub(rf'\g<0> nonce="{nonce}"', part) for part in (head, body, text))
    values = {
        "<title>Mangrove</title>": f"<title>{escape(settings['site_title'])}</title>",
        'content="#1890ff"': f'content="{escape(settings["main_color"])}"',
        "<!-- customize head -->": meta + head,
        "<!-- customize body -->": body,
    }
    return _fill(text, values), "; ".join(f"{name} {value}" for name, value in policy.items())


def _fill_family(text: str, settings: Settings, head: str, body: str) -> str:
    """Return the index.html of another front end, with the placeholders of the family filled in."""
    logo = settings["logo"].partition("\n")[0]
    text = FAMILY_LOGO.sub(lambda match: escape(logo if match[0].endswith("png") else settings["favicon"]), text)
    values = {
        "cdn: undefined": "cdn: ''",
        "base_path: undefined": "base_path: '/'",
        "api: undefined": f"api: location.origin + '{OPENLIST_PREFIX}'",
        "main_color: undefined": f"main_color: {_format_script_text(settings['main_color'])}",
        "Loading...": escape(settings["site_title"]),
        "<!-- customize head -->": head,
        "<!-- customize body -->": body,
    }
    return _fill(text, values)


def _fill(text: str, values: dict[str, str]) -> str:
    """Return `text` with each placeholder replaced by its value, in one pass: placeholders in values stay."""
    marks = "|".join(map(re.escape, values))
    return re.sub(marks, lambda match: values[match[0]], text)


def _format_script_text(value: str) -> str:
    """Return a text as a literal for a script. It cannot end the script."""
    return json.dumps(value).replace("<", "\\u003c")
