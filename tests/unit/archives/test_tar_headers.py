"""The headers of a tar, read by themselves."""

from __future__ import annotations

import asyncio
import gzip
import tarfile
import time

import pytest

from mangrove.archives.readers import RangeReader, ReadAhead, RecordReader
from mangrove.archives.tar_archive import Header, iter_headers
from mangrove.core.problems import BrokenArchive
from tests.unit.archives.packing import CPU, Held, list_members, pax, tarred


def headers(content: bytes, encoding: str = "IBM437") -> list[Header]:
    async def read() -> list[Header]:
        reader = RecordReader(RangeReader(ReadAhead(Held(content)), 0, len(content)))
        return [header async for header in iter_headers(reader, encoding)]

    return asyncio.run(read())


def block(name: str = "n", **changes: bytes) -> bytes:
    """One header with fields put in by their offset (`at_124=b"..."`) and a checksum that fits."""
    content = bytearray(tarfile.TarInfo(name).tobuf(tarfile.USTAR_FORMAT))
    for offset, value in changes.items():
        start = int(offset.removeprefix("at_"))
        content[start : start + len(value)] = value
    content[148:156] = b" " * 8
    content[148:156] = b"%06o\0 " % sum(content)
    return bytes(content)


def test_each_header_says_where_its_data_end() -> None:
    entries = headers(tarred({"a": b"x" * 513, "b": b""}))
    assert [(header.name, header.size, header.stop) for header in entries] == [("a", 513, 512 + 1024), ("b", 0, 2048)]


def test_a_long_path_is_put_together_of_prefix_and_name() -> None:
    (header,) = headers(block(at_345=b"some/folder"))
    assert header.name == "some/folder/n"


def test_numbers_may_be_base_256_and_a_broken_one_is_told() -> None:
    assert headers(block(at_136=b"\x80" + bytes(7) + b"\1\0\0\0"))[0].modified == 1 << 24
    for broken in (b"x0000000000\0", b"-0000000001\0", b"\xff" * 12):
        with pytest.raises(BrokenArchive, match="damaged header"):
            headers(block(at_124=broken))
    assert headers(block(at_136=b"x0000000000\0"))[0].modified == 0.0


def test_pax_fields_apply_to_next_entry_and_global_ones_to_all() -> None:
    content = pax(b"12 path=abc\n") + pax(b"14 mtime=12.5\n", b"g") + block("one") + block("two")
    assert [(header.name, header.modified) for header in headers(content)] == [("abc", 12.5), ("two", 12.5)]


@pytest.mark.parametrize("said", [b"no length\n", b"99 path=x\n", b"3 \n", b"9 pathx\n\n"])
def test_a_pax_header_that_cannot_be_is_broken(said: bytes) -> None:
    with pytest.raises(BrokenArchive, match="damaged header"):
        headers(pax(said) + block())


def test_a_header_that_claims_a_megabyte_is_not_read() -> None:
    with pytest.raises(BrokenArchive, match="too long"):
        headers(block(at_156=b"x", at_124=b"%011o\0" % (2 << 20)))


def test_names_that_are_not_utf_8_are_read_as_it_is_set() -> None:
    assert headers(block(at_0=b"\x84"))[0].name == "ä"
    assert headers(block(at_0="中".encode("gb18030")), "GB18030")[0].name == "中"


def test_a_pax_header_of_many_words_is_read_in_one_go() -> None:
    began = time.process_time()
    said = b"6 a=b\n" * 174_000 + b"16 path=renamed\n"
    assert [member.path for member in list_members("x.tar", pax(said) + tarred({"n": b""}))] == ["renamed"]
    assert time.process_time() - began < CPU


def test_what_a_general_pax_header_says_costs_each_entry_nothing() -> None:
    said = b"".join(b"13 %07d=a\n" % value for value in range(70_000))
    began = time.process_time()
    assert len(list_members("x.tar", pax(said, b"g") + tarred({str(value): b"" for value in range(1000)}))) == 1000
    assert time.process_time() - began < CPU


def test_headers_of_no_entry_are_not_read_for_ever() -> None:
    with pytest.raises(BrokenArchive, match="too many headers"):
        list_members("x.tgz", gzip.compress(pax(b"6 a=b\n") * 10_000))
