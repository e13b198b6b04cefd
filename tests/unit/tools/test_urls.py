"""The addresses that tools take, and the names of what is there."""

from __future__ import annotations

import re

import httpx
import pytest

from mangrove.paths import check_name
from mangrove.problems import Problem
from mangrove.tools import names, registry, urls

MAGNET = "magnet:?xt=urn:btih:" + "c12fe1c06bba254a9dc9f519b335aa7c1367a88a"
ALL = "SimpleHttp aria2 qBittorrent"
SIMPLE = "SimpleHttp tool does not support this URL scheme, please use aria2 or other tools for magnet/ed2k links"


@pytest.mark.parametrize(
    ("url", "tools"),
    [
        ("http://example.org/a", ALL), ("https://example.org", ALL),
        ("HTTPS://Example.org:8443/a?b=c", ALL), ("ftp://example.org/a", "aria2"),
        ("sftp://example.org/a", "aria2"), (MAGNET, "aria2 qBittorrent"), (f"{MAGNET}&dn=a%20b", "aria2 qBittorrent"),
        ("ed2k://|file|a|1|b|/", ""), ("thunder://QUE=", ""), ("file:///etc/passwd", ""), ("gopher://example.org/", ""),
        ("data:text/plain,x", ""), ("javascript:alert(1)", ""), ("jar:http://example.org!/x", ""), ("/etc/passwd", ""),
        ("example.org/a", ""), ("", ""), ("://", ""), ("http//x", ""),
    ],
)  # fmt: skip
def test_each_tool_takes_its_own_schemes(url: str, tools: str) -> None:
    for tool in registry.NAMES:
        if tool in tools.split():
            assert urls.checked(url, tool)
        else:
            with pytest.raises(urls.BadAddress):
                urls.checked(url, tool)


def test_a_scheme_that_a_tool_does_not_know_is_refused_in_the_words_clients_know() -> None:
    for url in ("ftp://h/", MAGNET, "ed2k://|file|", "file:///x"):
        with pytest.raises(Problem, match=f"^{re.escape(SIMPLE)}$"):
            urls.checked(url, "SimpleHttp")
    for tool in ("aria2", "qBittorrent"):
        text = (
            f"ed2k protocol is not supported by {tool}. "
            "Please configure and use Thunder/ThunderX/ThunderBrowser for ed2k links"
        )
        with pytest.raises(Problem, match=f"^{re.escape(text)}$"):
            urls.checked("ED2K://|file|a b|1|c|/", tool)


@pytest.mark.parametrize(
    "url",
    [
        "http://user:password@h/", "http://user@h/", "http://:@h/", "ftp://u:p@h/", "http://h\r\nHost: x/", "http://h/\nx",
        "http://h/a\x00b", "http://h/\x7f", "http://h/a b", "http://h\\@evil/", "http:///x", "http://", "http:x",
        "http://h:99999/", "http://h:0/", "http://h:x/", "http://[/", "http://[::1/", "http://h/\u202ex", "http://h/\ud800",
        "http://h/" + "a" * 9000, "http://h/" + "é" * 5000, "magnet:", "magnet:?xt=urn:sha1:abc", "magnet:?dn=x",
        "magnet:?xt=urn:btih:short", "magnet:?xt=urn:btih:../../etc",
    ],
)  # fmt: skip
def test_an_address_with_something_odd_about_it_is_refused(url: str) -> None:
    with pytest.raises(urls.BadAddress) as refused:
        urls.checked(url, "aria2")
    assert "password" not in refused.value.message or "not taken" in refused.value.message
    assert len(refused.value.message) < 200


def test_an_address_is_given_on_in_one_spelling() -> None:
    assert urls.checked(" HTTP://Example.ORG:80/ä?q=ö#part \n", "aria2") == "http://example.org/%C3%A4?q=%C3%B6"


@pytest.mark.parametrize(
    ("told", "name"),
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
def test_the_name_in_a_header_is_read(told: str, name: str) -> None:
    assert names.given(told) == name


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
    assert names.clean(raw) == name


@pytest.mark.parametrize(
    "raw", ["a" * 300 + ".tar", "é" * 300 + ".jpg", "😀" * 100, "x." + "y" * 300, "a" * 254 + " .txt"]
)
def test_a_long_name_is_cut_and_keeps_its_ending(raw: str) -> None:
    name = names.clean(raw)
    assert check_name(name) == name
    assert len(name.encode()) > 200
    assert name.endswith(raw[-4:]) or "." not in raw[-20:]


def test_without_a_name_the_path_and_then_the_host_name_the_file() -> None:
    assert names.of(httpx.URL("http://h/a/%E4%BD%A0%20b.zip?x=/no"), "inline") == "你 b.zip"
    assert names.of(httpx.URL("http://h/a/..%2f..%2fetc"), "") == "etc"
    made = names.of(httpx.URL("http://example.org/"), 'attachment; filename="..."')
    assert re.fullmatch(r"example\.org-\d{13}-[0-9a-f]{8}", made)
    assert check_name(names.of(httpx.URL("http://[::1]/"), ""))
