"""The headers of an upload, and the form's part `file`, however the bytes arrive."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from hashlib import md5

import pytest
from fastapi import Request

from mangrove.core.problems import BadRequest, Problem, TooLarge
from mangrove.web.form_parts import MAX_PART_HEADER_BYTES, FilePart
from mangrove.web.incoming import IncomingUpload
from tests.unit.web.configs import CLOUD, LOCAL, configure

FILE = b"first line\r\n--boundary-like\r\n--b\r\r\n\r\n--\r\n last\x00\xff"


def part(name: str, content: bytes, *headers: str) -> bytes:
    disposition = f'Content-Disposition: form-data; name="{name}"'
    return "\r\n".join(["--bound", disposition, *headers, "", ""]).encode() + content + b"\r\n"


REQUEST_BYTES = (
    part("note", b"text before") + part("file", FILE, "content-TYPE: text/x-mine", "X-More: 1")
    + part("file", b"second") + part("after", b"text after") + b"--bound--\r\n"
)  # fmt: skip


async def pieces(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        if chunk:
            yield chunk


def read(*chunks: bytes, boundary: bytes = b"bound") -> tuple[str, bytes]:
    """MIME type and bytes of the part."""

    async def go() -> tuple[str, bytes]:
        form = FilePart(pieces(*chunks), boundary)
        return await form.read_headers(), b"".join([chunk async for chunk in form.iter_bytes()])

    return asyncio.run(go())


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, len(REQUEST_BYTES)])
def test_the_part_is_the_same_in_chunks_of_any_size(size: int) -> None:
    chunks = [REQUEST_BYTES[start : start + size] for start in range(0, len(REQUEST_BYTES), size)]
    assert read(*chunks) == ("text/x-mine", FILE)


def test_the_part_is_the_same_wherever_the_form_is_cut_in_two() -> None:
    results = {read(REQUEST_BYTES[:cut], REQUEST_BYTES[cut:]) for cut in range(len(REQUEST_BYTES) + 1)}
    assert results == {("text/x-mine", FILE)}


def test_a_form_that_ends_early_never_looks_whole() -> None:
    end = len(REQUEST_BYTES) - len(b"--\r\n")
    for cut in range(end):
        with pytest.raises(Problem, match="the form is cut off"):
            read(REQUEST_BYTES[:cut])


@pytest.mark.parametrize(
    "form", [b"--bound--\r\n", part("note", b"x") + b"--bound--\r\n", part("File", b"x") + b"--bound--\r\n"]
)
def test_a_form_without_the_part_is_refused(form: bytes) -> None:
    with pytest.raises(Problem, match="the form has no part `file`"):
        read(form)


def test_an_empty_part_is_an_empty_file() -> None:
    assert read(part("file", b"") + b"--bound--\r\n") == ("", b"")


@pytest.mark.parametrize("form", [b"nonsense", b"--other\r\n\r\nx", b"\x00" * 100, b"--bound\r\nno header\r\n\r\nx"])
def test_what_is_no_form_is_refused_in_words(form: bytes) -> None:
    with pytest.raises(Problem, match="the form is broken: "):
        read(form)


@pytest.mark.parametrize("size", [1000, 1_000_000])
def test_headers_of_a_part_are_bounded(size: int) -> None:
    long = part("file", b"x", f"X-Long: {'x' * (MAX_PART_HEADER_BYTES + 1)}")
    many = part("file", b"x", *[f"X-{number}: {'x' * 100}" for number in range(1000)])
    for form in (long, many):
        with pytest.raises(Problem, match=r"too long|Maximum header (size|count) exceeded"):
            read(*[form[start : start + size] for start in range(0, len(form), size)])


@pytest.mark.parametrize("boundary", [b"b" * 5000, b""])
def test_a_boundary_that_cannot_be_is_refused(boundary: bytes) -> None:
    with pytest.raises(Problem):
        read(b"--" + boundary, boundary=boundary)


def test_the_part_is_handed_on_as_it_arrives() -> None:
    async def go() -> None:
        sent: list[int] = []

        async def body() -> AsyncIterator[bytes]:
            yield part("file", b"")[:-2]
            for number in range(100):
                sent.append(number)
                yield b"x" * 1000
            yield b"\r\n--bound--\r\n"

        form = FilePart(body(), b"bound")
        await form.read_headers()
        assert sent == []
        size = 0
        async for chunk in form.iter_bytes():
            size += len(chunk)
            assert size + 4000 >= len(sent) * 1000
        assert size == 100_000

    asyncio.run(go())


@pytest.fixture
def on_one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(LOCAL)


def upload(**headers: str) -> IncomingUpload:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return IncomingUpload(Request({"type": "http", "method": "PUT", "headers": named}))


def test_what_is_not_said_has_a_default(on_one_machine: None) -> None:
    upload_made = upload(file_path="/a.png")
    assert (upload_made.overwrite, upload_made.as_task, upload_made.hashes) == (True, False, {})
    assert (upload_made.mime, upload_made.length, upload_made.file_size) == ("image/png", None, None)
    assert abs(upload_made.modified - time.time()) < 5


def test_headers_say_what_the_file_is(on_one_machine: None) -> None:
    digest = md5(b"x").hexdigest()
    upload_made = upload(
        file_path="/a%20b/%C3%A9", overwrite="false", as_task="true", content_type="text/x", content_length="5",
        x_file_size="7", last_modified="1500", x_file_md5=digest.upper(), x_file_sha1="",
    )  # fmt: skip
    assert (upload_made.path, upload_made.overwrite, upload_made.as_task, upload_made.hashes) == (
        "/a b/é",
        False,
        True,
        {"md5": digest},
    )
    _, stored = upload_made.open_raw()
    assert (stored.size, stored.modified, stored.mime) == (5, 1.5, "text/x")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("content_length", "-1", "Content-Length is not a number of bytes"),
        ("x_file_size", "5 ", "X-File-Size is not a number of bytes"),
        ("x_file_size", "9" * 19, "X-File-Size is not a number of bytes"),
        ("last_modified", "yesterday", "Last-Modified is not a number of milliseconds since 1970"),
        ("last_modified", "253402300799001", "Last-Modified is not a number of milliseconds since 1970"),
        ("x_file_sha256", "xyz", "X-File-Sha256 is not hexadecimal"),
        ("file_path", "/a%zz", 'invalid URL escape "%zz"'),
        ("file_path", "/a%ff", "File-Path is not valid Unicode"),
    ],
)
def test_a_header_that_cannot_be_is_refused(on_one_machine: None, name: str, value: str, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        upload(**{name: value})
    assert caught.value.message == message


def test_a_function_refuses_what_it_cannot_carry(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(CLOUD)
    assert upload(content_length="4400000").length == 4_400_000
    with pytest.raises(TooLarge, match="begin with /api/fs/multipart/init"):
        upload(content_length="4400001")


@pytest.mark.parametrize("kind", ["text/plain", "", "multipart/form-data", "multipart/mixed; boundary=x"])
def test_a_form_says_that_it_is_one(on_one_machine: None, kind: str) -> None:
    with pytest.raises(Problem, match=r"is not multipart/form-data|has no boundary"):
        asyncio.run(upload(content_type=kind).open_form())
