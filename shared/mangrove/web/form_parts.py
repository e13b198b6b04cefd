"""The part `file` of a form, streamed."""

from __future__ import annotations

from collections.abc import AsyncIterator

from python_multipart.exceptions import FormParserError, MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header

from mangrove.core.problems import BadRequest, Problem

MAX_PART_HEADER_BYTES = 16_384


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


def open_file_part(content_type: str, body: AsyncIterator[bytes]) -> FilePart:
    """Return the part `file` of a body. Raise Problem if its content type is not that of a form."""
    kind, options = parse_options_header(content_type)
    if kind != b"multipart/form-data":
        raise Problem("the content type is not multipart/form-data")
    if not options.get(b"boundary"):
        raise Problem("the content type has no boundary")
    return FilePart(body, options[b"boundary"])
