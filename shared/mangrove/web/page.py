"""The page at `/`: our own as it was built, another front end, or none. What it fetches later is under `/@assets/`."""

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
from mangrove.web.dialects import OPENLIST_PREFIX, Dialect

API_PREFIXES = ("/api/", "/d/", "/p/", "/ad/", "/ap/", "/ae/", "/dav/")
ASSETS = "/@assets/"
ENCODINGS = {"br": ".br", "gzip": ".gz"}  # the first that a browser takes
FOREVER = "public, max-age=31536000, immutable"  # a name has the hash of its content
HALF_A_YEAR = "public, max-age=15552000"
POLICY = {
    "default-src": "'self'",
    "img-src": "'self' data: blob: http: https:",  # storages may send browsers to links of their own
    "media-src": "'self' blob: http: https:",
    "frame-src": "'self' blob:",  # where pages of users are shown, and PDF by the browser
    "object-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
}
CUSTOM_POLICY = {  # for what an administrator puts into the page: it may bring scripts, which may fetch what they need
    "style-src": "'self' 'unsafe-inline' https:",
    "font-src": "'self' data: https:",
    "connect-src": "'self' https:",
    "frame-src": "'self' blob: https:",
}
HEADERS = {
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-dns-prefetch-control": "off",  # a link in a text of a user is not looked up before somebody follows it
    "x-frame-options": "DENY",
}
FRAME = f"{ASSETS}frame.html"  # where our page shows a page of a user; what that one may load stands in the file itself
FRAME_HEADERS = {
    "cache-control": "no-cache",
    "content-security-policy": "sandbox allow-scripts; frame-ancestors 'self'",
    "x-frame-options": "SAMEORIGIN",
}
SCRIPT = re.compile(r"<script(?=[\s>])", re.IGNORECASE)
FAMILY_LOGO = re.compile(r"https://res\.oplist\.org/logo/logo\.(?:svg|png)")


class Page:
    """A front end in a folder: `index.html` for every address that a person opens, and the files beside it."""

    def __init__(self, folder: Path, is_ours: bool) -> None:
        """ValueError when the folder has no front end. `is_ours`: whether it is the one of this project."""
        self._folder = folder
        self._is_ours = is_ours
        self._built = 0  # when, in ns
        try:
            self._read()
        except (OSError, UnicodeError):
            raise ValueError(f"{folder} has no index.html") from None

    def _read(self) -> None:
        """Take up what is in the folder, unless that is done: it may be built anew while the service runs."""
        index = self._folder / "index.html"
        built = index.stat().st_mtime_ns
        if built != self._built:
            self._index = index.read_text()
            files = (path for path in self._folder.rglob("*") if path.is_file())
            self._files = {f"/{path.relative_to(self._folder).as_posix()}": path for path in files}
            self._built = built

    async def find(self, method: str, path: str, headers: Headers) -> Response | None:
        """The answer to a request that nothing else answers; None where it is not for the page."""
        if method not in ("GET", "HEAD"):
            return None
        if path in self._files and path != "/index.html":
            return self._serve_file(path, headers)
        if "text/html" not in headers.get("accept", "") or path.startswith((*API_PREFIXES, ASSETS)):
            return None
        with suppress(OSError):  # while it is built: what was there before still names its files
            self._read()
        answer = self._make_index(path, (await configuration.get()).settings)
        if method == "HEAD":
            answer.body = b""
        return answer

    def _serve_file(self, path: str, headers: Headers) -> Response:
        kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
        caching = FOREVER if path.startswith(ASSETS) else HALF_A_YEAR
        answer_headers = {**HEADERS, "cache-control": caching, "vary": "accept-encoding"}
        if path == FRAME:
            answer_headers |= FRAME_HEADERS
        taken = {part.split(";")[0].strip() for part in headers.get("accept-encoding", "").split(",")}
        for encoding, ending in ENCODINGS.items():
            if encoding in taken and path + ending in self._files:
                answer_headers["content-encoding"] = encoding
                return FileResponse(self._files[path + ending], headers=answer_headers, media_type=kind)
        return FileResponse(self._files[path], headers=answer_headers, media_type=kind)

    def _make_index(self, path: str, settings: Settings) -> Response:
        is_managing = path == "/@manage" or path.startswith("/@manage/")  # where a broken customisation is mended
        head = "" if is_managing else settings["customize_head"]
        body = "" if is_managing else settings["customize_body"]
        if self._is_ours:
            text, policy = _fill_ours(self._index, settings, head, body)
        else:
            text, policy = _fill_family(self._index, settings, head, body), "frame-ancestors 'none'"
        headers = {**HEADERS, "cache-control": "no-cache", "content-security-policy": policy}
        return HTMLResponse(text, headers=headers)


class FrontEnd:
    """The page that this process shows; in the cloud our own, where it was built into the function."""

    def __init__(self) -> None:
        self.page: Page | None = None
        folder = config().page
        if folder is not None:
            with suppress(ValueError):
                self.page = Page(folder, is_ours=True)


async def show(scope: Scope) -> Response:
    """The page's answer to a request; 404 where it has none. No page speaks the dialect of others."""
    page, found = runtime.get(FrontEnd).page, None
    if page is not None and scope["state"].get("dialect") is not Dialect.OPENLIST:
        found = await page.find(scope["method"], scope["path"], Headers(scope=scope))
    if found is None:
        raise HTTPException(404)
    return found


def _fill_ours(text: str, settings: Settings, head: str, body: str) -> tuple[str, str]:
    """Our index.html with what is set, and its policy. Custom scripts run by a nonce that no other page knows."""
    policy = dict(POLICY)
    if head or body:
        nonce = secrets.token_urlsafe(16)
        policy |= {**CUSTOM_POLICY, "script-src": f"'self' 'nonce-{nonce}' 'strict-dynamic'"}
        head, body, text = (SCRIPT.sub(rf'\g<0> nonce="{nonce}"', part) for part in (head, body, text))
    values = {
        "<title>Mangrove</title>": f"<title>{escape(settings['site_title'])}</title>",
        'content="#1890ff"': f'content="{escape(settings["main_color"])}"',
        "<!-- customize head -->": head,
        "<!-- customize body -->": body,
    }
    return _fill(text, values), "; ".join(f"{name} {value}" for name, value in policy.items())


def _fill_family(text: str, settings: Settings, head: str, body: str) -> str:
    """The index.html of another front end with the family's placeholders."""
    logo = settings["logo"].partition("\n")[0]
    text = FAMILY_LOGO.sub(lambda found: escape(logo if found[0].endswith("png") else settings["favicon"]), text)
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
    """`text` with values in place of their marks, in one pass: what a value says is no mark."""
    marks = "|".join(map(re.escape, values))
    return re.sub(marks, lambda found: values[found[0]], text)


def _format_script_text(value: str) -> str:
    """A text as a literal in a script, which does not end the script."""
    return json.dumps(value).replace("<", "\\u003c")
