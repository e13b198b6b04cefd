"""An upload: its headers, and its bytes from a raw body or from the part `file` of a form, streamed."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from typing import Annotated
from urllib.parse import unquote_to_bytes

from python_multipart.exceptions import FormParserError, MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header

from mangrove.configuration import throttle
from mangrove.core.http import guess_mime, parse_integer
from mangrove.core.platform import platform
from mangrove.core.problems import BadRequest, Problem, TooLarge
from mangrove.drivers.base import Upload
from mangrove.web.framework import Depends, Request

MAX_PART_HEADER_BYTES = 16_384
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
        kind, options = parse_options_header(self.request.headers.get("content-type", ""))
        if kind != b"multipart/form-data":
            raise Problem("the content type is not multipart/form-data")
        if not options.get(b"boundary"):
            raise Problem("the content type has no boundary")
        part = FilePart(read_body(self.request), options[b"boundary"])
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


class FilePart:
    """The part named `file` of a form, streamed as it arrives; the other parts are skipped.

    The bytes end only after the form's closing boundary. A form that is cut off raises a Problem.
    """

    def __init__(self, body: AsyncIterator[bytes], boundary: bytes) -> None:
        self._body = body
        self._chunks: list[bytes] = []
        self._headers: dict[bytes, bytes] = {}
        self._field = self._value = b""
        self._is_inside = self._has_begun = self._is_complete = False
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._on_part_begin,
                    "on_header_field": self._on_header_field,
                    "on_header_value": self._on_header_value,
                    "on_header_end": self._on_header_end,
                    "on_headers_finished": self._on_headers_finished,
                    "on_part_data": self._on_part_data,
                    "on_part_end": self._on_part_end,
                    "on_end": self._on_end,
                },
            )
        except FormParserError as error:
            raise BadRequest(str(error)) from None

    def _on_part_begin(self) -> None:
        self._headers = {}
        self._field = self._value = b""

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]
        self._check_header_size()

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]
        self._check_header_size()

    def _check_header_size(self) -> None:
        size = len(self._field) + len(self._value) + sum(map(len, self._headers.values()))
        if size > MAX_PART_HEADER_BYTES:
            raise BadRequest("the headers of a form part are too long")

    def _on_header_end(self) -> None:
        self._headers[self._field.lower()] = self._value
        self._field = self._value = b""
        self._check_header_size()

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        self._is_inside = not self._has_begun and options.get(b"name") == b"file"
        if self._is_inside:
            self._has_begun = True
            self.mime = self._headers.get(b"content-type", b"").decode("latin-1")

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._is_inside:
            self._chunks.append(data[start:end])

    def _on_part_end(self) -> None:
        self._is_inside = False

    def _on_end(self) -> None:
        self._is_complete = True

    async def _parse_chunk(self) -> bool:
        """Parse one more chunk of the body; False at its end."""
        chunk = await anext(self._body, b"")
        if not chunk:
            return False
        try:
            self._parser.write(chunk)
        except MultipartParseError as error:
            raise Problem(f"the form is broken: {error}") from None
        return True

    async def read_headers(self) -> str:
        """Read up to the part's first byte and return its MIME type. Raise Problem if the form has no such part."""
        while not self._has_begun:
            if not await self._parse_chunk():
                raise Problem("the form has no part `file`" if self._is_complete else "the form is cut off")
        return self.mime

    async def iter_bytes(self) -> AsyncIterator[bytes]:
        """Yield the part's bytes."""
        while True:
            for chunk in self._chunks:
                yield chunk
            self._chunks = []
            if not await self._parse_chunk():
                break
        if not self._is_complete:
            raise Problem("the form is cut off")


async def _parse_upload(request: Request) -> IncomingUpload:
    incoming = IncomingUpload(request)
    require_path(request)
    return incoming


Incoming = Annotated[IncomingUpload, Depends(_parse_upload)]
