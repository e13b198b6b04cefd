"""Quotas of a user for properties and locks."""

from __future__ import annotations

import time

from tests.contract.api.accounts import People
from tests.contract.api.dav_client import EVERYTHING, LOCK, Dav
from tests.support.service import Client, Service

PROPPATCH = (
    '<D:propertyupdate xmlns:D="DAV:"><D:set><D:prop><x xmlns="urn:x">{}</x></D:prop></D:set></D:propertyupdate>'
)
REMOVE = '<D:propertyupdate xmlns:D="DAV:"><D:remove><D:prop><x xmlns="urn:x"/></D:prop></D:remove></D:propertyupdate>'


def measure_listing(dav: Dav, folder: str) -> float:
    began = time.monotonic()
    assert dav.send("PROPFIND", folder, depth="1").status_code == 207
    return time.monotonic() - began


def test_allprop_lists_most_properties_of_a_folder(service: Service, people: People, folder: str) -> None:
    """A6 of issue 25: 260 PROPPATCHes of 32 KB made each of them take 6 s."""
    dav = Dav(service, people.new(EVERYTHING))
    for number in range(260):
        assert dav.status("PUT", f"{folder}/{number}", b"") == 201
        assert " 200 " in dav.send("PROPPATCH", f"{folder}/{number}", PROPPATCH.format("v" * 32_700)).text
    seconds = min(measure_listing(dav, folder) for _ in range(3))
    print(f"260 entries with 32 KB of properties: {seconds:.2f} s")
    assert dav.send("PROPFIND", folder, depth="1").text.count("v" * 32_700) == 260


def test_proppatch_beyond_bound_of_entry_answers_507(dav: Dav, folder: str) -> None:
    assert dav.status("PUT", f"{folder}/f", b"") == 201
    body = PROPPATCH.format("v" * 40_000)
    assert " 200 " in dav.send("PROPPATCH", f"{folder}/f", body).text
    answer = dav.send("PROPPATCH", f"{folder}/f", body.replace("<x ", "<y ").replace("</x>", "</y>"))
    assert answer.status_code == 207 and "507 Insufficient Storage" in answer.text and "65536 bytes" in answer.text
    assert "</y" not in dav.send("PROPFIND", f"{folder}/f", depth="0").text
    assert " 200 " in dav.send("PROPPATCH", f"{folder}/f", REMOVE).text


def test_locks_beyond_the_bound_of_a_user_answer_507(
    service: Service, admin: Client, people: People, dav: Dav, folder: str
) -> None:
    """A6 of issue 25: 4,000 locks of one user made each listing of the folder slow; a user has 100 now."""
    holder = Dav(service, people.new(EVERYTHING))
    statuses = [holder.status("LOCK", f"{folder}/{number}", LOCK.format(scope="exclusive")) for number in range(110)]
    seconds = min(measure_listing(dav, folder) for _ in range(3))
    print(f"{statuses.count(201)} locks: {seconds:.2f} s")
    assert statuses == [201] * 100 + [507] * 10
