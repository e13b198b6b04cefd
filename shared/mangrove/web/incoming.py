"""An upload: its headers, and its bytes from a raw body or from a form, streamed."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from typing import Annotated
from urllib.parse import unquote_to_bytes

from mangrove.configuration import throttle
from mangrove.core.http import guess_mime, parse_integer
from mangrove.core.platform import platform
from mangrove.core.problems import BadRequest, TooLarge
from mangrove.drivers.base import Upload
from mangrove.web.framework import Depends, Request

MAX_MILLISECONDS = 253_402_300_799_000  # the end of the year 9999
HASHES = ("md5", "sha1", "sha256")
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})(?P<rest>.{0,2})", re.DOTALL)
_HEX = re.compile(r"[0-9A-Fa-f]+")


class IncomingUpload:
    """The headers of an upload. `path` is below the caller's base path; `hashes` are hexadecimal."""

    def __init__(self, request: Request) -> None:
        self.request = request
        headers = request.headers
        self.path = _parse_path(request)
        self.password = headers.get("password", "")
        self.overwrite = headers.get("overwrite", "") != "false"
        self.as_task = headers.get("as-task", "") == "true"
        self.mime = headers.get("content-type", "") or guess_mime(self.path)
        self.file_size = parse_size(headers.get("x-file-size", ""), "X-File-Size")
        self.length = parse_size(headers.get("content-length", ""), "Content-Length")
        self.modified = _parse_modified(headers.get("last-modified", ""))
        self.hashes = {
            kind: text for kind in HASHES if (text := _parse_digest(headers.get(f"x-file-{kind}", ""), kind))
        }
        limit = platform().max_file_bytes
        if limit is not None and (self.length or 0) > limit:
            raise TooLarge(
                f"more than {limit} bytes cannot be uploaded through the function: begin with /api/fs/multipart/init"
            )

    def open_raw(self) -> tuple[AsyncIterator[bytes], Upload]:
        """Return the body as the bytes of the file, and its description."""
        size = self.file_size if self.length is None else self.length
        return read_body(self.request), Upload(size, self.modified, self.mime)

    async def open_form(self) -> tuple[AsyncIterator[bytes], Upload]:
        """Return the part `file`, read up to its first byte, and its description."""
        from mangrove.web.form_parts import open_file_part  # its library is for forms alone and takes milliseconds

        part = open_file_part(self.request.headers.get("content-type", ""), read_body(self.request))
        mime = await part.read_headers() or guess_mime(self.path)
        return part.iter_bytes(), Upload(self.file_size, self.modified, mime)


def require_path(request: Request) -> None:
    """Raise BadRequest without the header File-Path. Existing clients expect that an empty one is the root."""
    if "file-path" not in request.headers:
        raise BadRequest("the header File-Path is missing: it has the path of the file, percent-encoded")


def _parse_path(request: Request) -> str:
    raw = next((value for name, value in request.scope["headers"] if name == b"file-path"), b"")
    bad_escape = _BAD_ESCAPE.search(raw)
    if bad_escape:
        raise BadRequest(f'invalid URL escape "%{bad_escape["rest"].decode(errors="replace")}"')
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise BadRequest("File-Path is not valid Unicode") from None


def parse_size(text: str, name: str) -> int | None:
    """Parse a number of bytes; None for an empty text. Raise BadRequest if it is not a number."""
    size = parse_integer(text)
    if text and size is None:
        raise BadRequest(f"{name} is not a number of bytes")
    return size


def _parse_modified(text: str) -> float:
    """Return seconds since the epoch for a text in milliseconds; now for an empty text."""
    if not text:
        return time.time()
    milliseconds = parse_integer(text)
    if milliseconds is None or milliseconds > MAX_MILLISECONDS:
        raise BadRequest("Last-Modified is not a number of milliseconds since 1970")
    return milliseconds / 1000


def _parse_digest(text: str, kind: str) -> str:
    if text and not _HEX.fullmatch(text):
        raise BadRequest(f"X-File-{kind.capitalize()} is not hexadecimal")
    return text.lower()


async def read_body(request: Request) -> AsyncIterator[bytes]:
    """Yield the body as it arrives, at the speed that clients may use."""
    async for chunk in throttle.limit_client_upload(request.stream()):
        if chunk:
            yield chunk


async def _parse_upload(request: Request) -> IncomingUpload:
    incoming = IncomingUpload(request)
    require_path(request)
    return incoming


Incoming = Annotated[IncomingUpload, Depends(_parse_upload)]
