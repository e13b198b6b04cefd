"""The search as a whole: over the index, the mounts and the rules."""

from __future__ import annotations

import pytest

from mangrove import configuration
from mangrove.core import runtime
from mangrove.core.problems import Problem, SearchUnavailable
from mangrove.identity.rights import Right
from mangrove.records import storages
from mangrove.search.segments import SegmentStore
from mangrove.tree.listing import browse
from mangrove.tree.listing.browse import PageRequest
from tests.unit.search.search_env import SearchEnv
from tests.unit.tree.environment import ALL_RIGHTS

FILES = ("one/red.txt", "one/deep/red apple.txt", "two/green.txt", "redwood.txt")


@pytest.fixture
def env(searched: SearchEnv) -> SearchEnv:
    searched.tree.mount_disk("/disk", *FILES)
    searched.index()
    return searched


def change_storage(path: str, **fields: object) -> None:
    storage = next(record for record in storages.all() if record.mount_path == path)
    storages.change(storage.id, **fields)
    configuration.get_sync()


def test_names_at_and_below_a_folder_are_found(env: SearchEnv) -> None:
    assert env.find("red") == ["/disk/one/deep/red apple.txt", "/disk/one/red.txt", "/disk/redwood.txt"]
    assert env.find("red", "/disk/one") == ["/disk/one/deep/red apple.txt", "/disk/one/red.txt"]
    assert env.find("deep") == ["/disk/one/deep"] and env.find("deep", scope=2) == []
    assert env.find("red", "/disk/one/deep/") == ["/disk/one/deep/red apple.txt"]


def test_pages_follow_each_other_and_end(env: SearchEnv) -> None:
    pages = [env.search("red", start=start, count=2) for start in (0, 2, 4, 10**15)]
    assert [[hit.name for hit in page.hits] for page in pages] == [
        ["red apple.txt", "red.txt"],
        ["redwood.txt"],
        [],
        [],
    ]
    assert {page.total for page in pages} == {3}


def test_folders_that_lead_to_mounts_are_found_by_name(env: SearchEnv) -> None:
    env.tree.mount_disk("/far/away/shelf", "book.txt")
    assert env.find("a", scope=1) == ["/far/away", "/far"]
    assert env.find("shelf") == ["/far/away/shelf"] == env.find("shelf", "/far")
    assert env.find("shelf", "/disk") == []
    assert len(env.search("shelf").missing) == 1
    env.index("/far/away/shelf")
    assert env.find("book") == ["/far/away/shelf/book.txt"] and not env.search("book").missing


def test_a_storage_inside_another_shows_its_own_alone(env: SearchEnv) -> None:
    env.tree.mount_disk("/disk/one", "blue.txt")  # the content of the folder `one` of the other storage is hidden now
    env.tree.mount_disk("/disk/two/new/shelf", "red book.txt")
    env.index()
    assert env.find("red") == ["/disk/two/new/shelf/red book.txt", "/disk/redwood.txt"]
    assert env.find("one") == ["/disk/one"] and env.find("two") == ["/disk/two"]  # once
    assert env.find("new", "/disk/two") == ["/disk/two/new"]
    assert env.find("blue", "/disk/one") == ["/disk/one/blue.txt"]


def test_folder_leading_to_mount_is_found_once(env: SearchEnv) -> None:
    env.tree.mount_disk("/disk/one/shelf")
    env.tree.mount_disk("/disk/three/shelf")
    for path, name in [("/disk", "one"), ("/disk", "three"), ("/disk/one", "shelf"), ("/disk/three", "shelf")]:
        assert env.find(name, path, scope=1) == [f"{path}/{name}"]


def test_an_alias_has_the_names_of_what_it_shows(env: SearchEnv) -> None:
    env.tree.mount("/top", "Alias", options={"paths": "/disk/one"})
    env.index()
    assert env.find("apple") == ["/disk/one/deep/red apple.txt", "/top/deep/red apple.txt"]
    env.tree.add_rule("/disk/one/deep", password="x")
    assert env.find("apple") == []
    assert len(env.find("apple", password="x")) == 2


@pytest.mark.parametrize("fields", [{"disabled": True}, {"disable_index": True}])
def test_a_storage_that_is_switched_off_or_has_no_index_is_not_searched(
    env: SearchEnv, fields: dict[str, object]
) -> None:
    env.tree.mount_disk("/other")
    env.index()
    change_storage("/disk", **fields)
    assert env.find("red") == []
    assert env.find("disk") == ([] if "disabled" in fields else ["/disk"])
    assert not env.search("red").missing


def test_what_a_storage_that_failed_has_does_not_count(env: SearchEnv) -> None:
    change_storage("/disk", addition='{"root_folder_path": "/nowhere at all"}')
    assert env.find("red") == [] and env.find("disk") == ["/disk"]


def test_of_balanced_storages_one_is_searched(env: SearchEnv) -> None:
    for name in ("/pair", "/pair.balance1"):
        env.tree.mount_disk(name, "red pear.txt")
    env.index()
    assert env.find("pear") == ["/pair/red pear.txt"] and env.find("pair") == ["/pair"]


def test_what_the_settings_leave_out_is_not_found(env: SearchEnv) -> None:
    env.tree.mount_disk("/disk/one/shelf")
    env.tree.set(ignore_paths="/disk/one/shelf", max_index_depth="1")
    assert env.find("shelf") == [] and env.find("disk") == ["/disk"]


def test_where_a_search_begins_it_fails_as_a_listing_does(env: SearchEnv) -> None:
    env.tree.mount_disk("/disk/one/shelf")
    env.tree.mount("/broken", options={"root_folder_path": "/nowhere at all"})
    env.tree.add_rule("/disk", hide="^two$", h_sub=True)
    env.tree.add_rule("/disk/one", password="x", p_sub=True)
    places = ("/missing", "/disk/missing", "/disk/redwood.txt", "/disk/two", "/disk/two/x", "/disk/one/deep", "/broken")
    for path in (*places, "/disk/one/shelf", "/disk/redwood.txt/x"):
        with pytest.raises(Problem) as searched:
            env.search("red", path)
        with pytest.raises(Problem) as listed:
            env.tree.run(browse.list_folder(env.tree.access(path), PageRequest(), False, ""))
        assert (searched.value.code, searched.value.message) == (listed.value.code, listed.value.message), path


def test_rules_are_kept_before_anything_is_counted(env: SearchEnv) -> None:
    env.tree.add_rule("/disk", hide="apple", h_sub=True)
    assert env.find("red") == ["/disk/one/red.txt", "/disk/redwood.txt"]
    assert env.find("apple") == []
    env.tree.add_rule("/disk/one", password="x", p_sub=True)
    assert env.find("red") == ["/disk/redwood.txt"] and env.find("one") == ["/disk/one"]
    assert len(env.find("red", password="x")) == 3  # its own rule hides nothing
    env.tree.change_user(permission=ALL_RIGHTS | Right.SEE_HIDDEN | Right.SKIP_PASSWORD)
    assert len(env.find("red")) == 3


def test_nothing_is_found_when_it_is_switched_off(env: SearchEnv) -> None:
    env.tree.set(search_index="none")
    with pytest.raises(SearchUnavailable):
        env.search("red")


def test_a_damaged_index_counts_as_none_and_its_file_is_logged(
    env: SearchEnv, caplog: pytest.LogCaptureFixture
) -> None:
    segments = env.tree.run(runtime.get(SegmentStore).open(1))
    assert segments is not None
    content = segments.names[0].read_bytes()
    segments.names[0].write_bytes(content[: len(content) // 2])
    result = env.search("red")
    assert (result.total, result.missing) == (0, {1})
    (record,) = [record for record in caplog.records if record.getMessage() == "damaged search index dropped"]
    assert record.facts["file"] == segments.names[0].name  # type: ignore[attr-defined]  # `facts` comes from the service's log
    assert env.tree.run(runtime.get(SegmentStore).open(1)) is None
    env.index()
    assert len(env.find("red")) == 3
