"""The names of archives, and the reader of each."""

from __future__ import annotations

import bz2
import gzip
import lzma
from typing import Any

import pytest

from mangrove import archives
from mangrove.core.problems import BrokenArchive
from tests.unit.archives.packing import FILES, read, tarred, zipped
from tests.unit.archives.test_formats import ZSTD, by_zstd, seven


def test_what_is_supported_and_what_remains_of_a_name() -> None:
    for name, base in (("x.zip", "x"), ("a.b.tar.gz", "a.b"), ("X.TGZ", "X"), ("n.txt.gz", "n.txt"), ("x.7z", "x")):
        assert archives.is_supported(name)
        assert archives.base_name(name) == base
    for name in ("x", "x.txt", "x.zip.001", "x.rar", "zip", ".zip", "x.iso", "x.zip/y"):
        assert not archives.is_supported(name)
        assert archives.base_name(name) == name
    assert archives.base_name(".tar.gz") == ".tar"
    with pytest.raises(BrokenArchive, match="does not have the extension of an archive"):
        read("x.txt", b"x")


def test_every_extension_that_is_listed_is_read() -> None:
    makers: dict[str, Any] = {
        ".zip": lambda: zipped(FILES), ".7z": seven, ".tar": lambda: tarred(FILES),
        ".tar.gz": lambda: gzip.compress(tarred(FILES)), ".tgz": lambda: gzip.compress(tarred(FILES)),
        ".tar.bz2": lambda: bz2.compress(tarred(FILES)), ".tbz2": lambda: bz2.compress(tarred(FILES)),
        ".tar.xz": lambda: lzma.compress(tarred(FILES)), ".txz": lambda: lzma.compress(tarred(FILES)),
        ".tar.zst": lambda: by_zstd(tarred(FILES)), ".tzst": lambda: by_zstd(tarred(FILES)),
        ".gz": lambda: gzip.compress(b"x"), ".bz2": lambda: bz2.compress(b"x"), ".xz": lambda: lzma.compress(b"x"),
        ".zst": lambda: by_zstd(b"x"),
    }  # fmt: skip
    assert set(archives.EXTENSIONS) == set(makers)
    for extension, make in makers.items():
        if not extension.endswith("zst") or ZSTD:
            files = read(f"x{extension}", make()).files
            assert files == (FILES if extension not in (".gz", ".bz2", ".xz", ".zst") else {"x": b"x"}), extension
