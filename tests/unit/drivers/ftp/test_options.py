"""The options of an FTP storage, and its names."""

from __future__ import annotations

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem
from mangrove.drivers.ftp.lines import ServerNames
from mangrove.drivers.ftp.options import parse_encoding, parse_server


@pytest.mark.parametrize("text", [" h.example:21 ", "ftp://h.example/", "h.example"])
def test_an_address_may_be_written_as_a_url(text: str) -> None:
    assert parse_server(text) == ("h.example", 21)


@pytest.mark.parametrize("text", ["ftp://u:p@h", "h/path", "h\r\nQUIT"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(StorageProblem, match="address"):
        parse_server(text)


def test_an_encoding_is_a_charset_in_which_commands_can_be_sent() -> None:
    assert [parse_encoding(name) for name in ("UTF-8", "", " GBK", "Latin1")] == ["utf-8", "utf-8", "gbk", "iso8859-1"]
    for name in ("nonsense", "utf-16", "cp037", "rot13", "base64", "\0"):
        with pytest.raises(StorageProblem, match="encoding"):
            parse_encoding(name)


def test_names_are_bytes_of_the_charset() -> None:
    names = ServerNames("cp1251", TreePath("/root"))
    assert names.encode(TreePath("/Ж")).encode("latin-1") == "/root/Ж".encode("cp1251")
    assert names.decode("Ж".encode("cp1251")) == "Ж"
    assert ServerNames("utf-8", TreePath("/")).decode("Ж".encode("cp1251")) is None
    with pytest.raises(StorageProblem, match="я"):
        names.encode(TreePath("/я"))  # the byte 255
    with pytest.raises(StorageProblem, match="too long"):
        names.encode(TreePath("/" + "n" * 256))
