"""What an upload's headers say, and its bytes: a raw body, or the part `file` of a form, never held as a whole."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from typing import Annotated
from urllib.parse import unquote_to_bytes

from fastapi import Depends, Request
from python_multipart.exceptions import FormParserError, MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header

from mangrove.config import config
from mangrove.drivers.base import Upload
from mangrove.problems import BadRequest, Problem, TooLarge
from mangrove.web.serving import LARGEST_CLOUD_ANSWER, mime_of

LONGEST_PART_HEADERS = 16_384  # bytes
LATEST = 253_402_300_799_000  # milliseconds: the end of the year 9999
HASHES = ("md5", "sha1", "sha256")
_bad_escape = re.compile(rb"%(?![0-9A-Fa-f]{2})(?P<rest>.{0,2})", re.DOTALL)
_hex = re.compile(r"[0-9A-Fa-f]+")


class Incoming:
    """The headers of an upload (behaviour 5.14). `path` is below the caller's base path; `hashes` in hex."""

    def __init__(self, request: Request) -> None:
        self.request = request
        headers = request.headers
        self.path = _file_path(request)
        self.overwrite = headers.get("overwrite", "") != "false"
        self.as_task = headers.get("as-task", "") == "true"
        self.mime = headers.get("content-type", "") or mime_of(self.path)
        self.announced = _whole(headers.get("x-file-size", ""), "X-File-Size")
        self.length = _whole(headers.get("content-length", ""), "Content-Length")
        self.modified = _moment(headers.get("last-modified", ""))
        self.hashes = {kind: text for kind in HASHES if (text := _digest(headers.get(f"x-file-{kind}", ""), kind))}
        if not config().on_one_machine and (self.length or 0) > LARGEST_CLOUD_ANSWER:
            raise TooLarge(
                f"more than {LARGEST_CLOUD_ANSWER} bytes cannot be uploaded through the function: use a direct upload"
            )

    def raw(self) -> tuple[AsyncIterator[bytes], Upload]:
        """The body itself."""
        size = self.announced if self.length is None else self.length
        return _body(self.request), Upload(size, self.modified, self.mime)

    async def form(self) -> tuple[AsyncIterator[bytes], Upload]:
        """The part `file`, read up to its first byte."""
        kind, options = parse_options_header(self.request.headers.get("content-type", ""))
        if kind != b"multipart/form-data":
            raise Problem("request Content-Type isn't multipart/form-data")
        if not options.get(b"boundary"):
            raise Problem("no multipart boundary param in Content-Type")
        part = FilePart(_body(self.request), options[b"boundary"])
        mime = await part.begin() or mime_of(self.path)
        return part.bytes(), Upload(self.announced, self.modified, mime)


def _file_path(request: Request) -> str:
    raw = next((value for name, value in request.scope["headers"] if name == b"file-path"), b"")
    wrong = _bad_escape.search(raw)
    if wrong:
        raise BadRequest(f'invalid URL escape "%{wrong["rest"].decode(errors="replace")}"')
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise BadRequest("File-Path is not valid Unicode") from None


def _whole(text: str, name: str) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise BadRequest(f"{name} is not a number of bytes")
    return int(text)


def _moment(text: str) -> float:
    """Seconds since the epoch, of milliseconds; now when nothing is said."""
    if not text:
        return time.time()
    if not text.isascii() or not text.isdecimal() or len(text) > 18 or int(text) > LATEST:
        raise BadRequest("Last-Modified is not a number of milliseconds since 1970")
    return int(text) / 1000


def _digest(text: str, kind: str) -> str:
    if text and not _hex.fullmatch(text):
        raise BadRequest(f"X-File-{kind.capitalize()} is not hexadecimal")
    return text.lower()


async def _body(request: Request) -> AsyncIterator[bytes]:
    async for chunk in request.stream():
        if chunk:
            yield chunk


class FilePart:
    """The part named `file` of a form, handed on as it arrives; whatever else the form has is passed over.

    The bytes end only when the form's closing boundary was seen, so that a cut form never looks whole.
    """

    def __init__(self, body: AsyncIterator[bytes], boundary: bytes) -> None:
        self._body = body
        self._chunks: list[bytes] = []
        self._headers: dict[bytes, bytes] = {}
        self._field = self._value = b""
        self._inside = self._found = self._ended = False
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._on_begin,
                    "on_header_field": self._on_field,
                    "on_header_value": self._on_value,
                    "on_header_end": self._on_header_end,
                    "on_headers_finished": self._on_headers,
                    "on_part_data": self._on_data,
                    "on_part_end": self._on_end,
                    "on_end": self._on_last,
                },
            )
        except FormParserError as error:
            raise BadRequest(str(error)) from None

    def _on_begin(self) -> None:
        self._headers = {}
        self._field = self._value = b""

    def _on_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]
        self._bounded()

    def _on_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]
        self._bounded()

    def _bounded(self) -> None:
        held = len(self._field) + len(self._value) + sum(map(len, self._headers.values()))
        if held > LONGEST_PART_HEADERS:
            raise BadRequest("the headers of a form part are too long")

    def _on_header_end(self) -> None:
        self._headers[self._field.lower()] = self._value
        self._field = self._value = b""
        self._bounded()

    def _on_headers(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        self._inside = not self._found and options.get(b"name") == b"file"
        if self._inside:
            self._found = True
            self.mime = self._headers.get(b"content-type", b"").decode("latin-1")

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        if self._inside:
            self._chunks.append(data[start:end])

    def _on_end(self) -> None:
        self._inside = False

    def _on_last(self) -> None:
        self._ended = True

    async def _more(self) -> bool:
        """Parse one more chunk of the body; False at its end."""
        chunk = await anext(self._body, b"")
        if not chunk:
            return False
        try:
            self._parser.write(chunk)
        except MultipartParseError as error:
            raise Problem(f"multipart: {error}") from None
        return True

    async def begin(self) -> str:
        """Read until the part is there; its MIME type. Problem when the form has no such part."""
        while not self._found:
            if not await self._more():
                raise Problem("http: no such file" if self._ended else "multipart: NextPart: EOF")
        return self.mime

    async def bytes(self) -> AsyncIterator[bytes]:
        """The part's bytes."""
        while True:
            for chunk in self._chunks:
                yield chunk
            self._chunks = []
            if not await self._more():
                break
        if not self._ended:
            raise Problem("multipart: NextPart: EOF")


async def _incoming(request: Request) -> Incoming:
    return Incoming(request)


Sent = Annotated[Incoming, Depends(_incoming)]
