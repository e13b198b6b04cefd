"""Share links on the real engine: ids, and visits, which are never more than are allowed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mangrove.core.problems import RecordNotFound
from mangrove.records import share_links
from mangrove.records.share_links import ShareLink, ShareLinkRecord
from mangrove.records.store.base import NameTaken, get_connection

pytestmark = pytest.mark.usefixtures("records")


def create(id: str, **fields: Any) -> ShareLink:
    return share_links.create(id, **{"owner": 7, "files": ["/a"]} | fields)


def test_share_link_is_read_as_it_was_written() -> None:
    link = create("a", password="secret", expires=12345, files=["/a", "/b/ü"], extensions=["jpg"], mode="both")
    assert share_links.get("a") == link == share_links.find("a")
    assert (link.files, link.password, link.expires, link.extensions) == (["/a", "/b/ü"], "secret", 12345, ["jpg"])
    assert share_links.find("b") is None and share_links.all() == [link]


def test_password_of_a_share_link_is_encrypted_in_the_record() -> None:
    create("a", password="a secret word")
    item = get_connection(ShareLinkRecord).get_item(ShareLinkRecord.Meta.table_name, "a")["Item"]
    assert b"secret" not in item["password"]["B"]


def test_id_of_a_share_link_is_taken_once() -> None:
    create("a")
    other = create("b")
    with pytest.raises(NameTaken):
        create("a", owner=8)
    with pytest.raises(NameTaken):
        share_links.change("b", new_id="a")
    assert share_links.get("b") == other


def test_share_link_with_a_new_id_keeps_its_visits_and_password() -> None:
    link = create("a", password="secret")
    assert share_links.add_visit(link, "192.0.2.1")
    moved = share_links.change("a", new_id="b", remark="x")
    assert (moved.id, moved.number, moved.password, moved.remark) == ("b", link.number, "secret", "x")
    assert share_links.find("a") is None and share_links.get("b") == moved
    assert share_links.count_visits([moved]) == {link.number: 1}


def test_share_links_of_a_user_are_found_and_deleted_together() -> None:
    for id in ("c", "a"):
        create(id)
    create("b", owner=8)
    assert share_links.find_ids(7) == ["a", "c"]
    share_links.delete_of(7)
    assert [link.id for link in share_links.all()] == ["b"]
    with pytest.raises(RecordNotFound):
        share_links.delete("a")


def test_visits_of_one_visitor_count_once() -> None:
    link = create("a", max_accessed=1)
    assert [share_links.add_visit(link, "192.0.2.1") for _ in range(3)] == [True] * 3
    assert share_links.count_visits([link]) == {link.number: 1}
    assert not share_links.add_visit(link, "192.0.2.2")


def test_visit_counts_again_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    link = create("a", max_accessed=2)
    assert share_links.add_visit(link, "192.0.2.1")
    now = share_links.time.time()
    monkeypatch.setattr(share_links.time, "time", lambda: now + share_links.VISIT_SECONDS + 1)
    assert share_links.add_visit(link, "192.0.2.1")
    assert share_links.count_visits([link]) == {link.number: 2}


def test_parallel_first_visits_are_never_more_than_allowed() -> None:
    link = create("a", max_accessed=100)
    with ThreadPoolExecutor(32) as pool:
        admitted = list(pool.map(lambda number: share_links.add_visit(link, f"visitor {number}"), range(1000)))
    assert sum(admitted) == 100
    assert share_links.count_visits([link]) == {link.number: 100}


def test_visits_without_a_limit_are_all_counted() -> None:
    link = create("a")
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda number: share_links.add_visit(link, f"visitor {number}"), range(50)))
    assert share_links.count_visits([link]) == {link.number: 50}
