"""Folders of a bucket that are listed in pages, by the requests that they cost.

Pages of the server have a hundred entries here, but for one test of thousands.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import TooLarge, Unreachable
from mangrove.identity.rights import Right
from mangrove.records import share_links
from mangrove.tree.listing import browse, entries, listing
from mangrove.tree.listing.browse import PageRequest
from mangrove.tree.listing.listing import listings
from mangrove.tree.sharing import visits
from mangrove.tree.sharing.shared_path import PREFIX
from tests import servers
from tests.unit.drivers.s3.bucket import Bucket
from tests.unit.drivers.s3.proxy import Exchange, Proxy, proxied
from tests.unit.tree.environment import TreeEnv
from tests.unit.tree.test_browse import get_object, list_folder, list_names, list_subfolders

FILES = [f"{number:04}.txt" for number in range(250)]
FOLDERS = ["0099.d", "0150.d"]
STORED = sorted([*FILES, *FOLDERS])
ALL = [name for at in range(0, 300, 100) for name in sorted(STORED[at : at + 100], key=lambda name: name in FILES)]
PREFIX_NAMES = [f"a-{number:03}" for number in range(120)]
LARGE_FOLDER_NAMES = [f"{number:04}.txt" for number in range(2500)]


class Counter:
    """The listings that a server was asked for since the last look."""

    def __init__(self, proxy: Proxy) -> None:
        self._call_count = 0
        self.heads: list[str] = []
        proxy.before.append(self._look)

    def _look(self, exchange: Exchange) -> None:
        if exchange.method == "HEAD":
            self.heads.append(exchange.key)
        if exchange.method == "GET" and not exchange.key:
            self._call_count += 1
            if "large" not in exchange.target:
                exchange.target += "&max-keys=100"

    def take(self) -> int:
        count, self._call_count = self._call_count, 0
        return count


@pytest.fixture(scope="module")
def filled() -> Iterator[Bucket]:
    with servers.moto_s3() as endpoint:
        bucket = Bucket(endpoint)
        bucket.put(*(f"many/{name}" for name in FILES), *(f"many/{name}/deep/x" for name in FOLDERS))
        bucket.put(*(f"flat/{name}" for name in FILES[:120]), "few/a", "few/b")
        bucket.put(*(f"alike/{name}" for name in PREFIX_NAMES), "alike/a.txt", "alike/b.txt", "alike/b.txt/deep")
        yield bucket


@pytest.fixture
def lists(filled: Bucket, tree: TreeEnv) -> Iterator[Counter]:
    """Everything is in the bucket at /s3, which is asked through a proxy."""
    with proxied(filled.endpoint) as proxy:
        counter = Counter(proxy)
        mount(tree, filled, proxy)
        yield counter


def mount(tree: TreeEnv, bucket: Bucket, proxy: Proxy, path: str = "/s3", version: str = "v2", **fields: Any) -> None:
    options = servers.s3_options(proxy.endpoint, bucket.name, list_object_version=version)
    tree.mount(path, "S3", options=options, cache_expiration=30, **fields)


def test_pages_of_a_folder_of_thousands_cost_two_listings_at_most(tree: TreeEnv) -> None:
    with servers.moto_s3() as endpoint, proxied(endpoint) as proxy:
        bucket, lists, seen = Bucket(endpoint), Counter(proxy), []
        bucket.put(*(f"large/{name}" for name in LARGE_FOLDER_NAMES))
        mount(tree, bucket, proxy)
        for page in range(1, 5):
            answer = list_folder(tree, "/s3/large", PageRequest(page, 800))
            assert lists.take() <= 2
            seen += [row["name"] for row in answer["content"]]
        assert seen == LARGE_FOLDER_NAMES
        assert answer["total"] == 2500


def test_a_page_costs_two_listings_at_most(tree: TreeEnv, lists: Counter) -> None:
    seen: list[str] = []
    for page in range(1, 12):
        answer = list_folder(tree, "/s3/many", PageRequest(page, 24))
        seen += [row["name"] for row in answer["content"]]
        assert lists.take() <= 2
        assert answer["total"] == len(ALL) if len(seen) == len(ALL) else answer["total"] > len(seen)
    assert seen == ALL
    assert list_folder(tree, "/s3/many", PageRequest(12, 24))["content"] == []
    assert list_names(tree, "/s3/many", PageRequest(5, 24)) == ALL[96:120]
    assert lists.take() == 0
    listings().forget(tree.access("/s3").find_mount()[0].storage.id, TreePath("/many"))
    assert list_names(tree, "/s3/many", PageRequest(11, 24)) == ALL[240:]
    assert lists.take() == 1, "where its pages begin is remembered"
    assert list_names(tree, "/s3/many", PageRequest(5, 24)) == ALL[96:120]
    assert lists.take() == 2


def test_subfolders_are_found_by_page_without_keeping_files(tree: TreeEnv, lists: Counter) -> None:
    tree.mount_disk("/s3/many/0150.txt/mounted")
    tree.mount_disk("/s3/many/none/mounted")
    assert list_subfolders(tree, "/s3/many") == [*FOLDERS, "none"]
    assert (lists.take(), listings().weight) == (4, 0)  # the first page is asked for twice: one was enough for most
    assert list_subfolders(tree, "/s3/few") == []
    assert lists.take() == 1
    assert list_subfolders(tree, "/s3/few") == []
    assert lists.take() == 0


def test_pages_of_the_older_call(tree: TreeEnv, filled: Bucket) -> None:
    """Of files alone: moto's repeats folders."""
    with proxied(filled.endpoint) as proxy:
        mount(tree, filled, proxy, version="v1")
        lists = Counter(proxy)
        assert list_folder(tree, "/s3/flat", PageRequest(1, 90))["total"] == 101
        assert list_names(tree, "/s3/flat", PageRequest(2, 90)) == FILES[90:120]
        assert lists.take() == 2


def test_a_folder_of_one_page_is_a_whole_listing(tree: TreeEnv, lists: Counter) -> None:
    answer = list_folder(tree, "/s3/few", PageRequest(1, 1))
    assert ([row["name"] for row in answer["content"]], answer["total"]) == (["a"], 2)
    assert list_names(tree, "/s3/few", PageRequest(1, 10, "name", "desc")) == ["b", "a"]
    assert lists.take() == 1


def test_what_a_rule_hides_is_in_no_page_and_not_counted(tree: TreeEnv, lists: Counter) -> None:
    tree.add_rule("/s3/many", hide=r"\d\d\d[1-9]\.txt|d$")
    visible, seen = [name for name in ALL if name.endswith("0.txt")], []
    for page in range(1, 6):
        answer = list_folder(tree, "/s3/many", PageRequest(page, 6))
        seen += [row["name"] for row in answer["content"]]
        assert lists.take() <= 2
    assert seen == visible
    assert answer["total"] == len(visible)


def test_other_orders_are_of_the_whole_folder_up_to_a_bound(
    tree: TreeEnv, lists: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = list_folder(tree, "/s3/many", PageRequest(1, 3, "name", "desc"))
    assert [row["name"] for row in answer["content"]] == [*FOLDERS[::-1], FILES[-1]]
    assert (answer["total"], lists.take()) == (len(ALL), 3)
    monkeypatch.setattr(listing, "MAX_SORTED_ENTRIES", 150)
    listings().clear()
    with pytest.raises(TooLarge, match="leave out order_by"):
        list_folder(tree, "/s3/many", PageRequest(1, 3, "size"))
    lists.take()
    with pytest.raises(TooLarge, match="leave out order_by"):
        list_folder(tree, "/s3/many", PageRequest(1, 3, "size"))
    assert list_names(tree, "/s3/many", PageRequest(1, 24, "name", "asc")) == ALL[:24]
    assert lists.take() == 0, "it is known to be too large"


def test_large_shared_folder_has_the_order_of_its_storage(
    tree: TreeEnv, lists: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = share_links.create("large", owner=tree.user.id, files=["/s3/many"], order_by="size", order_direction="desc")
    shared = tree.run(visits.open_shared(PREFIX / link.id, "", Right.READ, ""))

    def list_shared(page: PageRequest) -> Any:
        return tree.run(browse.list_folder(shared, page, False, ""))

    small = orjson.loads(orjson.dumps(list_shared(PageRequest(1, 3))["content"]))
    monkeypatch.setattr(listing, "MAX_SORTED_ENTRIES", 150)
    listings().clear()
    large = orjson.loads(orjson.dumps(list_shared(PageRequest(1, 3))["content"]))
    assert [row["name"] for row in large] == ALL[:3]
    assert [row["name"] for row in small][:2] == FOLDERS
    with pytest.raises(TooLarge, match="leave out order_by"):
        list_shared(PageRequest(1, 3, "size"))


def test_large_folder_is_listed_in_order_of_server(
    tree: TreeEnv, filled: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MAX_SORTED_ENTRIES", 150)
    with proxied(filled.endpoint) as proxy:
        Counter(proxy)
        mount(tree, filled, proxy, order_by="size", order_direction="desc", extract_folder="front")
        assert list_names(tree, "/s3/many", PageRequest(1, 24)) == ALL[:24]


def test_mounts_in_a_folder_too_large_to_be_sorted_come_first(
    tree: TreeEnv, lists: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.mount_disk("/s3/many/0001.txt")
    tree.mount_disk("/s3/many/zz")
    assert list_names(tree, "/s3/many", PageRequest(1, 3)) == ALL[:3]
    answer = list_folder(tree, "/s3/many", PageRequest(2, 252))
    assert ([row["name"] for row in answer["content"]], answer["total"]) == (["zz"], 253)
    monkeypatch.setattr(listing, "MAX_SORTED_ENTRIES", 150)
    listings().clear()
    assert list_names(tree, "/s3/many", PageRequest(1, 4)) == [
        "0001.txt",
        "zz",
        *[n for n in ALL if n != "0001.txt"][:2],
    ]
    assert list_names(tree, "/s3/many", PageRequest(2, 4)) == [n for n in ALL if n != "0001.txt"][2:6]


def test_one_file_and_those_of_its_name_never_list_their_folder(tree: TreeEnv, lists: Counter) -> None:
    answer = get_object(tree, "/s3/many/0099.txt")
    assert [row["name"] for row in answer["related"]] == ["0099.d"]
    assert lists.take() == 1
    assert get_object(tree, "/s3/many/0123.txt")["related"] is None
    assert lists.take() == 1


def test_one_file_of_a_storage_with_a_trash_is_not_asked_for_twice(tree: TreeEnv, filled: Bucket) -> None:
    with proxied(filled.endpoint) as proxy:
        counter = Counter(proxy)
        options = servers.s3_options(proxy.endpoint, filled.name, trash_days=30)
        tree.mount("/kept", "S3", options=options, cache_expiration=30)
        assert get_object(tree, "/kept/many/0123.txt")["name"] == "0123.txt"
        assert (counter.take(), counter.heads) == (1, [])


def test_a_file_behind_a_page_of_names_that_begin_alike_is_asked_for(tree: TreeEnv, lists: Counter) -> None:
    answer = get_object(tree, "/s3/alike/a.txt")
    assert (answer["name"], answer["is_dir"], len(answer["related"])) == ("a.txt", False, 100)
    assert lists.take() == 1


def test_a_folder_is_found_by_one_listing_and_a_file_of_its_name_before_it(tree: TreeEnv, lists: Counter) -> None:
    assert get_object(tree, "/s3/many/0099.d")["is_dir"]
    assert not get_object(tree, "/s3/alike/b.txt")["is_dir"]
    assert lists.take() == 2


def test_a_failure_further_down_is_worded_as_that_of_a_listing(tree: TreeEnv, filled: Bucket) -> None:
    with proxied(filled.endpoint) as proxy:
        Counter(proxy)
        mount(tree, filled, proxy)
        assert list_names(tree, "/s3/many", PageRequest(1, 24)) == ALL[:24]
        proxy.before.append(lambda exchange: exchange.respond(503, "SlowDown"))
        with pytest.raises(Unreachable, match="failed get objs: failed to list objs: the S3 server answers SlowDown"):
            list_names(tree, "/s3/many", PageRequest(9, 24))
        assert list_names(tree, "/s3/many", PageRequest(2, 24)) == ALL[24:48], "what is kept serves"
        proxy.before.pop()
        assert list_names(tree, "/s3/many", PageRequest(9, 24)) == ALL[192:216]


def test_a_changed_folder_shows_everything_once(tree: TreeEnv, filled: Bucket, lists: Counter) -> None:
    for page in range(1, 12):
        list_folder(tree, "/s3/many", PageRequest(page, 24))
    new = [f"many/0050.{number:03}" for number in range(30)]
    filled.put(*new)
    try:
        answer = list_folder(tree, "/s3/many", PageRequest(1, 100), refresh=True)
        seen = [row["name"] for row in answer["content"]]
        assert answer["total"] > 100
        for page in range(2, 5):
            lists.take()
            seen += list_names(tree, "/s3/many", PageRequest(page, 100))
            assert lists.take() <= 2
        assert sorted(seen) == sorted([*ALL, *(key.removeprefix("many/") for key in new)])
    finally:
        for key in new:
            filled.client.delete_object(Bucket=filled.name, Key=key)


def test_who_takes_entries_one_by_one_reads_one_page_ahead(
    tree: TreeEnv, lists: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "ENTRIES_PER_PAGE", 50)
    tree.mount("/s3/many/0100.txt", "Local")
    tree.mount("/s3/many/new", "Local")

    access = tree.access("/s3/many")

    async def take(count: int) -> list[str]:
        listing = entries.iterate(access)
        names = [(await anext(listing)).name for _ in range(count)]
        await listing.aclose()  # type: ignore[attr-defined]  # it is a generator
        return names

    async def take_all() -> list[tuple[str, bool]]:
        return [(entry.name, entry.is_dir) async for entry in entries.iterate(access)]

    assert tree.run(take(40)) == ALL[:40]
    assert lists.take() <= 2
    seen = dict(tree.run(take_all()))
    assert list(seen) == [*[name for name in ALL if name != "0100.txt"], "0100.txt", "new"]
    assert seen["0100.txt"] and not seen["0101.txt"]
    assert lists.take() <= 2
