"""The form upload's part `file`, however the bytes arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from mangrove.problems import Problem
from mangrove.web.incoming import LONGEST_PART_HEADERS, FilePart

FILE = b"first line\r\n--boundary-like\r\n--b\r\r\n\r\n--\r\n last\x00\xff"


def part(name: str, content: bytes, *headers: str) -> bytes:
    disposition = f'Content-Disposition: form-data; name="{name}"'
    return "\r\n".join(["--bound", disposition, *headers, "", ""]).encode() + content + b"\r\n"


WHOLE = (
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
        return await form.begin(), b"".join([chunk async for chunk in form.bytes()])

    return asyncio.run(go())


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, len(WHOLE)])
def test_the_part_is_the_same_in_chunks_of_any_size(size: int) -> None:
    chunks = [WHOLE[start : start + size] for start in range(0, len(WHOLE), size)]
    assert read(*chunks) == ("text/x-mine", FILE)


def test_the_part_is_the_same_wherever_the_form_is_cut_in_two() -> None:
    found = {read(WHOLE[:cut], WHOLE[cut:]) for cut in range(len(WHOLE) + 1)}
    assert found == {("text/x-mine", FILE)}


def test_a_form_that_ends_early_never_looks_whole() -> None:
    end = len(WHOLE) - len(b"--\r\n")
    for cut in range(end):
        with pytest.raises(Problem, match="multipart: NextPart: EOF"):
            read(WHOLE[:cut])


@pytest.mark.parametrize(
    "form", [b"--bound--\r\n", part("note", b"x") + b"--bound--\r\n", part("File", b"x") + b"--bound--\r\n"]
)
def test_a_form_without_the_part_is_refused(form: bytes) -> None:
    with pytest.raises(Problem, match="http: no such file"):
        read(form)


def test_an_empty_part_is_an_empty_file() -> None:
    assert read(part("file", b"") + b"--bound--\r\n") == ("", b"")


@pytest.mark.parametrize("form", [b"nonsense", b"--other\r\n\r\nx", b"\x00" * 100, b"--bound\r\nno header\r\n\r\nx"])
def test_what_is_no_form_is_refused_in_words(form: bytes) -> None:
    with pytest.raises(Problem, match="multipart: "):
        read(form)


@pytest.mark.parametrize("size", [1000, 1_000_000])
def test_headers_of_a_part_are_bounded(size: int) -> None:
    long = part("file", b"x", f"X-Long: {'x' * (LONGEST_PART_HEADERS + 1)}")
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
        await form.begin()
        assert sent == []
        size = 0
        async for chunk in form.bytes():
            size += len(chunk)
            assert size + 4000 >= len(sent) * 1000
        assert size == 100_000

    asyncio.run(go())
