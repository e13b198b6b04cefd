"""Answers to PROPFIND as they arrive, from good servers and from hostile ones."""

from __future__ import annotations

import tracemalloc

import pytest

from mangrove.core.problems import StorageProblem, Unreachable
from mangrove.drivers.webdav import multistatus
from mangrove.drivers.webdav.multistatus import MultistatusParser, Resource

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
WANTED = [
    Resource("/f/%C3%A4%20b.txt", 200, False, 12, 784111777.0, '"a"b"'),
    Resource("/f/", 200, True, None, 0.0, "", 70, 30),
]


def parse(*pieces: bytes) -> list[Resource]:
    parser = MultistatusParser()
    found = []
    for piece in pieces:
        parser.feed(piece)
        found += parser.take()
    parser.finish()
    return found + parser.take()


def test_entries_are_read_wherever_the_pieces_end() -> None:
    text = HEAD + FILE + FOLDER + TAIL
    assert parse(text) == WANTED
    assert parse(*(text[start : start + 1] for start in range(len(text)))) == WANTED


def test_an_entry_is_there_as_soon_as_it_is_complete() -> None:
    parser = MultistatusParser()
    parser.feed(HEAD + FILE + FOLDER[:-30])
    assert parser.take() == WANTED[:1]
    parser.feed(FOLDER[-30:])
    with pytest.raises(Unreachable, match="broke off"):
        parser.finish()
    assert parser.take() == WANTED[1:]


def test_what_failed_has_its_status() -> None:
    failed = b"<D:response><D:href>/a</D:href><D:status>HTTP/1.1 423 Locked</D:status></D:response>"
    assert parse(HEAD + failed + TAIL) == [Resource("/a", 423)]


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
    with pytest.raises(StorageProblem, match="answers with what is not to be read"):
        parse(text)


HOSTILE = {
    "a deep tree": b"<a>" * (multistatus.MAX_PATH_DEPTH + 1),
    "an endless name": b"<D:response><" + b"n" * (2 * multistatus.LONGEST_ENTRY),
    "an endless attribute": b'<D:response a="' + b"n" * (2 * multistatus.LONGEST_ENTRY),
    "an endless comment": b"<!--" + b"n" * (2 * multistatus.LONGEST_ENTRY),
    "an endless address": b"<D:response><D:href>" + b"n" * (2 * multistatus.LONGEST_ENTRY),
    "a long address": b"<D:response><D:href>" + b"n" * (2 * multistatus.LONGEST_TEXT) + b"</D:href>",
    "an address among others": b"<D:response><D:href>" + b"n<a/>" * (2 * multistatus.LONGEST_TEXT),
    "endless elements": b"<D:response>" + b"<a/>" * (multistatus.MOST_ELEMENTS + 1),
    "ever new elements": b"".join(b"<D:response><e%d/></D:response>" % number for number in range(3000)),
    "ever new attributes": b"".join(b"<D:response><e a%d=''/></D:response>" % number for number in range(3000)),
    "ever new prefixes": b"".join(b"<D:response xmlns:p%d='x'/>" % number for number in range(3000)),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_answer_exhausts_the_memory(kind: str) -> None:
    parser = MultistatusParser()
    text = HEAD + HOSTILE[kind]
    with pytest.raises(StorageProblem, match="answers with what is not to be read"):
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
