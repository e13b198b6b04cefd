"""The names that downloaded files get."""

from __future__ import annotations

import re

import httpx
import pytest

from mangrove.core.paths import check_name
from mangrove.tools import names


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ('attachment; filename="a b.txt"', "a b.txt"), ("attachment; filename=a.txt", "a.txt"), ("inline", ""),
        ("", ""),
        ("attachment;filename*=UTF-8''%e2%82%ac%20rates.txt;filename=\"x.txt\"", "€ rates.txt"),
        ("attachment; filename=\"x.txt\"; filename*=utf-8'en'%c3%a4.txt", "ä.txt"),
        ("attachment; filename*=iso-8859-1''%A3.txt", "£.txt"), ("attachment; FILENAME = a.txt", "a.txt"),
        ("attachment; filename*=UTF-8''%ff%fe; filename=b.txt", "b.txt"),
        ("attachment; filename*=nonsense''%41; filename=b.txt", "b.txt"),
        (r'attachment; filename="a\"b;c.txt"', 'a"b;c.txt'),
        ("filename=bare.txt", "bare.txt"), ('attachment; filename="unclosed', 'unclosed'),
    ],
)  # fmt: skip
def test_the_name_in_a_header_is_read(header: str, name: str) -> None:
    assert names.parse_content_disposition(header) == name


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ("../../etc/passwd", "passwd"), ("..\\..\\boot.ini", "boot.ini"), ("/etc/shadow", "shadow"), 
        ("C:\\x\\y.txt", "y.txt"),
        (".htaccess", "htaccess"), ("...", ""), ("..", ""), (".", ""), ("", ""), ("/", ""), (" . . ", ""), ("a/", ""),
        ("a\r\nb\x00c\x1b[31m", "abc[31m"), ("photo\u202egpj.exe", "photogpj.exe"), ("trail. . ", "trail"),
        ("\u200bhidden", "hidden"), ("\ud800x", "x"), ("ok.txt", "ok.txt"),
    ],
)  # fmt: skip
def test_a_name_is_made_harmless(raw: str, name: str) -> None:
    assert names.sanitize_name(raw) == name


@pytest.mark.parametrize(
    "raw", ["a" * 300 + ".tar", "é" * 300 + ".jpg", "😀" * 100, "x." + "y" * 300, "a" * 254 + " .txt"]
)
def test_a_long_name_is_cut_and_keeps_its_ending(raw: str) -> None:
    name = names.sanitize_name(raw)
    assert check_name(name) == name
    assert len(name.encode()) > 200
    assert name.endswith(raw[-4:]) or "." not in raw[-20:]


def test_without_a_name_the_path_and_then_the_host_name_the_file() -> None:
    assert names.make_file_name(httpx.URL("http://h/a/%E4%BD%A0%20b.zip?x=/no"), "inline") == "你 b.zip"
    assert names.make_file_name(httpx.URL("http://h/a/..%2f..%2fetc"), "") == "etc"
    made = names.make_file_name(httpx.URL("http://example.org/"), 'attachment; filename="..."')
    assert re.fullmatch(r"example\.org-\d{13}-[0-9a-f]{8}", made)
    assert check_name(names.make_file_name(httpx.URL("http://[::1]/"), ""))
