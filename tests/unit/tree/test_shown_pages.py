"""Folders of a bucket that another storage shows: as they are, in the bucket's own pages; changed, as a whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mangrove.drivers.base import Upload
from mangrove.records import storages
from mangrove.tree.listing.browse import PageRequest
from mangrove.tree.listing.lookups import look_up_many
from tests import servers
from tests.unit.drivers.s3.bucket import Bucket
from tests.unit.drivers.s3.proxy import Exchange, Proxy, proxied
from tests.unit.tree.environment import TreeEnv, stream
from tests.unit.tree.test_browse import get_object, list_folder, list_names, list_subfolders
from tests.unit.tree.test_bucket_pages import ALL, FILES, FOLDERS, Counter, mount

PAGES = range(1, 12)


@pytest.fixture(scope="module")
def filled() -> Iterator[Bucket]:
    with servers.moto_s3() as endpoint:
        bucket = Bucket(endpoint)
        bucket.put(*(f"many/{name}" for name in FILES), *(f"many/{name}/deep/x" for name in FOLDERS), "other/z")
        yield bucket


@pytest.fixture
def proxy(filled: Bucket, tree: TreeEnv) -> Iterator[Proxy]:
    """Everything is in the bucket at /s3, which is asked through this."""
    with proxied(filled.endpoint) as proxy:
        mount(tree, filled, proxy)
        yield proxy


@pytest.fixture
def lists(proxy: Proxy) -> Counter:
    return Counter(proxy)


def show(tree: TreeEnv, *paths: str, at: str = "/shown") -> None:
    tree.mount(at, "Alias", options={"paths": "\n".join(paths)})


@pytest.mark.parametrize(("paths", "folder"), [(["/s3"], "/many"), (["a:/s3", "b:/other"], "/a/many")])
def test_a_page_through_an_alias_costs_two_listings_at_most(
    tree: TreeEnv, lists: Counter, paths: list[str], folder: str
) -> None:
    show(tree, *paths)
    seen: list[str] = []
    for page in PAGES:
        answer = list_folder(tree, f"/shown{folder}", PageRequest(page, 24))
        seen += [row["name"] for row in answer["content"]]
        assert lists.take() <= 2
    assert (seen, answer["total"]) == (ALL, len(ALL))
    assert list_names(tree, f"/shown{folder}", PageRequest(7, 24)) == ALL[144:168]
    assert lists.take() <= 2, "where its pages begin is remembered"


def test_an_alias_of_an_alias_is_read_in_the_same_pages(tree: TreeEnv, lists: Counter) -> None:
    show(tree, "/s3/many")
    show(tree, "/shown", at="/again")
    for page in PAGES:
        assert list_names(tree, "/again", PageRequest(page, 24)) == ALL[(page - 1) * 24 : page * 24]
        assert lists.take() <= 2
    show(tree, "/circle", at="/round")
    show(tree, "/round", at="/circle")
    with pytest.raises(Exception, match="circle"):
        list_names(tree, "/circle", PageRequest(1, 24))


def test_one_file_through_an_alias_never_lists_its_folder(tree: TreeEnv, lists: Counter) -> None:
    show(tree, "/s3/many")
    answer = get_object(tree, "/shown/0099.txt")
    assert (answer["provider"], [row["name"] for row in answer["related"]]) == ("Alias", ["0099.d"])
    assert lists.take() == 1
    assert list_subfolders(tree, "/shown") == FOLDERS
    assert lists.take() <= 4


def test_folders_that_are_merged_or_hold_mounts_are_listed_as_a_whole(tree: TreeEnv, lists: Counter) -> None:
    show(tree, "x:/s3/many", "x:/s3/other")
    assert list_names(tree, "/shown", PageRequest(11, 24)) == [*ALL, "z"][240:]
    assert lists.take() == 4
    show(tree, "/s3/many", at="/single")
    assert list_names(tree, "/single", PageRequest(1, 24)) == ALL[:24]
    assert lists.take() <= 2
    tree.mount_disk("/s3/many/zz")
    assert list_names(tree, "/single", PageRequest(11, 24)) == [*ALL, "zz"][240:]
    assert list_folder(tree, "/single", PageRequest(1, 24))["total"] == len(ALL) + 1


def test_an_alias_that_leads_elsewhere_by_now_shows_that(tree: TreeEnv, filled: Bucket, proxy: Proxy) -> None:
    show(tree, "/s3/many")
    Counter(proxy)
    assert [list_names(tree, "/shown", PageRequest(page, 24)) for page in (1, 9)] == [ALL[:24], ALL[192:216]]
    storages.delete(tree.access("/s3").find_mount()[0].storage.id)
    other = Bucket(filled.endpoint)
    other.put(*(f"many/{name}.new" for name in FILES))
    mount(tree, other, proxy)
    assert list_names(tree, "/shown", PageRequest(9, 24)) == [f"{name}.new" for name in FILES[192:216]]


def test_a_folder_whose_names_are_encrypted_is_listed_as_a_whole(tree: TreeEnv, lists: Counter) -> None:
    """Its pages would be in an unknown order."""
    names = {"filename_encryption": "standard", "encrypted_suffix": ".bin"}
    tree.mount("/crypt", "Crypt", options={"remote_path": "/s3/secret", "password": "p", "salt": "s"} | names)
    folder = tree.run(tree.access("/crypt").locate())
    for name in FILES[:110]:
        tree.run(folder.driver.write(folder.path / name, stream(b"x"), Upload(1, 1.0)))
    lists.take()
    assert list_names(tree, "/crypt", PageRequest(2, 50, "name", "asc")) == FILES[50:100]
    assert lists.take() == 2


@pytest.mark.parametrize("place", ["/s3/many", "/shown"])
def test_many_names_of_a_folder_are_looked_up_by_few_listings(tree: TreeEnv, proxy: Proxy, place: str) -> None:
    show(tree, "/s3/many")
    names = [*FILES[10:150:2], *FOLDERS, *(f"{name}.gone" for name in FILES[::5])]
    requests: list[str] = []

    def note(exchange: Exchange) -> None:
        requests.append("LIST" if exchange.method == "GET" and not exchange.key else exchange.method)

    access = tree.access(place)

    async def find() -> list[bool]:
        known = await look_up_many(await access.locate(), names)
        return [await known.has(name) for name in names]

    proxy.before.append(note)
    assert tree.run(find()) == [name in ALL for name in names]
    assert requests == ["LIST"]
