"""Addresses, times and multistatus answers of WebDAV servers."""

from __future__ import annotations

import tracemalloc

import httpx
import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem, Unreachable
from mangrove.drivers.webdav import resources
from mangrove.drivers.webdav.options import parse_address
from mangrove.drivers.webdav.resources import MultistatusParser, RemoteResource, Urls, parse_date

HEAD = b'<?xml version="1.0" encoding="utf-8"?>\n<D:multistatus xmlns:D="DAV:" xmlns:o="http://other.example/">'
FILE = b"""<D:response xmlns:lp1="DAV:"><D:href>/f/%C3%A4%20b.txt</D:href>
<D:propstat><D:prop><lp1:resourcetype/><lp1:getcontentlength>12</lp1:getcontentlength>
<lp1:getlastmodified>Sun, 06 Nov 1994 08:49:37 GMT</lp1:getlastmodified><lp1:getetag>"a&quot;b"</lp1:getetag>
<o:getetag>"other"</o:getetag></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>
<D:propstat><D:prop><D:getcontentlength>99</D:getcontentlength></D:prop><D:status>HTTP/1.1 404 Not Found</D:status>
</D:propstat></D:response>"""
FOLDER = b"""<D:response><D:href>/f/</D:href><D:propstat><D:prop><D:resourcetype><D:collection/></D:resourcetype>
<D:lockdiscovery><D:activelock><D:lockroot><D:href>/elsewhere</D:href></D:lockroot></D:activelock></D:lockdiscovery>
<D:quota-available-bytes>70</D:quota-available-bytes><D:quota-used-bytes>30</D:quota-used-bytes>
</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"""
TAIL = b"</D:multistatus>"
RESOURCES = [
    RemoteResource("/f/%C3%A4%20b.txt", 200, False, 12, 784111777.0, '"a"b"'),
    RemoteResource("/f/", 200, True, None, 0.0, "", 70, 30),
]


def parse(*pieces: bytes) -> list[RemoteResource]:
    parser = MultistatusParser()
    entries = []
    for piece in pieces:
        parser.feed(piece)
        entries += parser.take()
    parser.finish()
    return entries + parser.take()


def test_entries_are_read_wherever_the_pieces_end() -> None:
    text = HEAD + FILE + FOLDER + TAIL
    assert parse(text) == RESOURCES
    assert parse(*(text[start : start + 1] for start in range(len(text)))) == RESOURCES


def test_an_entry_is_there_as_soon_as_it_is_complete() -> None:
    parser = MultistatusParser()
    parser.feed(HEAD + FILE + FOLDER[:-30])
    assert parser.take() == RESOURCES[:1]
    parser.feed(FOLDER[-30:])
    with pytest.raises(Unreachable, match="broke off"):
        parser.finish()
    assert parser.take() == RESOURCES[1:]


def test_what_failed_has_its_status() -> None:
    failed = b"<D:response><D:href>/a</D:href><D:status>HTTP/1.1 423 Locked</D:status></D:response>"
    assert parse(HEAD + failed + TAIL) == [RemoteResource("/a", 423)]


@pytest.mark.parametrize(
    "text",
    [
        b"<html><body>Sign in</body></html>",
        b"not at all",
        HEAD + b"<D:response></D:href>",
        b'<?xml version="1.0" encoding="x-none"?>' + HEAD,
        b'<?xml version="1.0"?><!DOCTYPE m [<!ENTITY a "aaaa">]>' + HEAD + b"&a;" + TAIL,
        b'<!DOCTYPE m SYSTEM "file:///etc/passwd">' + HEAD + TAIL,
        HEAD + b"&undefined;" + TAIL,
        b'<multistatus xmlns="OTHER:"/>',
    ],
)
def test_what_is_no_such_answer_is_refused(text: bytes) -> None:
    with pytest.raises(StorageProblem, match="answer cannot be read"):
        parse(text)


HOSTILE = {
    "a deep tree": b"<a>" * (resources.MAX_ELEMENT_DEPTH + 1),
    "an endless name": b"<D:response><" + b"n" * (2 * resources.MAX_ENTRY_BYTES),
    "an endless attribute": b'<D:response a="' + b"n" * (2 * resources.MAX_ENTRY_BYTES),
    "an endless comment": b"<!--" + b"n" * (2 * resources.MAX_ENTRY_BYTES),
    "an endless address": b"<D:response><D:href>" + b"n" * (2 * resources.MAX_ENTRY_BYTES),
    "a long address": b"<D:response><D:href>" + b"n" * (2 * resources.MAX_TEXT_CHARACTERS) + b"</D:href>",
    "an address among others": b"<D:response><D:href>" + b"n<a/>" * (2 * resources.MAX_TEXT_CHARACTERS),
    "endless elements": b"<D:response>" + b"<a/>" * (resources.MAX_ELEMENTS_PER_ENTRY + 1),
    "ever new elements": b"".join(b"<D:response><e%d/></D:response>" % number for number in range(3000)),
    "ever new attributes": b"".join(b"<D:response><e a%d=''/></D:response>" % number for number in range(3000)),
    "ever new prefixes": b"".join(b"<D:response xmlns:p%d='x'/>" % number for number in range(3000)),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_answer_exhausts_the_memory(kind: str) -> None:
    parser = MultistatusParser()
    text = HEAD + HOSTILE[kind]
    with pytest.raises(StorageProblem, match="answer cannot be read"):
        for start in range(0, len(text), 1 << 16):
            parser.feed(text[start : start + (1 << 16)])


def test_a_long_listing_holds_no_more_than_its_last_entries() -> None:
    parser, count = MultistatusParser(), 0
    parser.feed(HEAD)
    tracemalloc.start()
    try:
        for number in range(3000):
            parser.feed(FILE.replace(b"b.txt", b"b%d.txt" % number))
            count += len(parser.take())
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert count == 3000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Sun, 06 Nov 1994 08:49:37 GMT", 784111777.0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 784111777.0),
        ("Sun Nov  6 08:49:37 1994", 784111777.0),
        ("Sun, 6 Nov 1994 09:49:37 +0100", 784111777.0),
        ("1994-11-06T08:49:37Z", 784111777.0),
        ("1994-11-06T08:49:37.5+00:00", 784111777.5),
        (" Thu, 01 Jan 1970 00:00:00 GMT ", 0.0),
        ("Thu, 01 Jan 1601 00:00:00 GMT", 0.0),
        ("Thu, 99 Foo 1994 00:00:00 GMT", 0.0),
        ("Thu, 99 Nov 1994 00:00:00 GMT", 0.0),
        ("", 0.0),
        ("yesterday", 0.0),
        ("0000-00-00", 0.0),
    ],
)
def test_a_time(text: str, seconds: float) -> None:
    assert parse_date(text) == seconds


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
