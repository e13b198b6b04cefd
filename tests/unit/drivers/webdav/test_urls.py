"""Addresses of paths, and names of addresses."""

from __future__ import annotations

import httpx
import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem
from mangrove.drivers.webdav.options import parse_address
from mangrove.drivers.webdav.urls import Urls

P = TreePath
URLS = Urls(httpx.URL("https://h.example:8443/dav%20x/"), P("/root"))


def test_where_a_path_lies() -> None:
    assert URLS.make(P("/")) == "https://h.example:8443/dav%20x/root/"
    assert URLS.make(P("/a b/ä?#%;+")) == "https://h.example:8443/dav%20x/root/a%20b/%C3%A4%3F%23%25%3B%2B"
    assert URLS.make(P("/a"), is_dir=True) == "https://h.example:8443/dav%20x/root/a/"
    assert Urls(httpx.URL("http://h"), P("/")).make(P("/")) == "http://h/"
    assert str(httpx.URL(URLS.make(P("/a%2Fb/'~")))).endswith("/a%252Fb/%27~")


@pytest.mark.parametrize(
    ("href", "name"),
    [
        ("/dav%20x/root/d/f", "f"),
        ("/dav x/root/d/f%2b+%C3%A4", "f++ä"),
        ("/dav%20x/root/d/f%2B+%c3%a4/", "f++ä"),
        ("https://other.example/dav%20x/root/d/f", "f"),
        ("http://h.example/dav%20x/root/d", ""),
        ("/dav%20x/root/d/", ""),
        ("f%20g", "f g"),
        ("/dav%20x/root/d/a?b#c", "a?b#c"),
        ("/dav%20x/root/d/a%252Fb", "a%2Fb"),
        ("/dav%20x/root/d/f/g", None),
        ("/dav%20x/root/dd", None),
        ("/dav%20x/root/", None),
        ("/other/f", None),
        ("../f", None),
        ("..", None),
        ("/dav%20x/root/d/..", None),
        ("/dav%20x/root/d/../e", None),
        ("/dav%20x/root/d/a%2Fb", None),
        ("/dav%20x/root/d/a%5Cb", None),
        ("/dav%20x/root/d/a%00b", None),
        ("/dav%20x/root/d/%FF", None),
        ("/dav%20x/root/d/" + "n" * 2000, None),
        ("https://h.example", None),
        ("//f", None),
        ("/dav%20x/root/d///", ""),
        ("/dav%20x/root/d//f", None),
        ("/dav%20x/root/d/" + "%C3%A4" * 512, "ä" * 512),
        ("/dav%20x/root/d/" + "%C3%A4" * 513, None),
    ],
)
def test_what_lies_in_a_folder(href: str, name: str | None) -> None:
    assert URLS.make_finder(P("/d"))(href) == name


def test_the_root_of_the_server_may_be_the_folder() -> None:
    urls = Urls(httpx.URL("http://h"), P("/"))
    assert [urls.make_finder(P("/"))(href) for href in ("/", "/f", "f", "http://h", "http://h/f/")] == [
        "", "f", "f", "", "f"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("h.example", "https://h.example"),
        (" http://h:81/dav ", "http://h:81/dav"),
        ("https://[::1]:8/x", "https://[::1]:8/x"),
    ],
)
def test_an_address_may_leave_out_its_scheme(text: str, url: str) -> None:
    assert str(parse_address(text)) == url


@pytest.mark.parametrize(
    "text", ["", " ", "ftp://h", "http://", "http://h:99999", "http://me:secret@h", "http://h/?a", "http://h/#a", "//x"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(StorageProblem, match=r"^address ") as refused:
        parse_address(text)
    assert "secret" not in refused.value.message
