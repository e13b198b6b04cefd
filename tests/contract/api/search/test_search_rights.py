"""Search keeps the rules before it counts: every caller finds what a walk through their listings shows, no more."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.contract.api import fixtures
from tests.contract.api.accounts import People, get_refusal, guest
from tests.contract.api.meta_client import NO_PRIVILEGE, SEE_HIDDEN, SKIP_PASSWORD, UNREADABLE
from tests.contract.api.search_client import build_index, find, find_all, search, walk
from tests.support.service import Client, Service

pytestmark = pytest.mark.xdist_group("search")  # one service

FILES = [f"{outer}/{two}/{name}" for outer in "ab" for two in "ab" for name in ("red.txt", "secret.txt", "c/deep.md")]
PASSWORD = "sesame"


@dataclass
class Place:
    """A folder of mounts, `top`, with a storage, another one inside it, an alias of a part; the paths in it that may
    have rules."""

    top: str
    root: Path

    @property
    def paths(self) -> list[str]:
        inside = ("a", "a/b", "a/b/c", "b", "b/a", "a/nested", "a/nested/b")
        return [self.top, f"{self.top}/disk", f"{self.top}/alias", f"{self.top}/alias/b", f"{self.top}/far/below"] + [
            f"{self.top}/disk/{name}" for name in inside
        ]


@pytest.fixture(scope="module")
def place(admin: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    root = tmp_path_factory.mktemp("searched")
    top = f"/{uuid4().hex}"
    for name in FILES:
        for base in ("disk", "nested", "far"):
            (root / base / name).parent.mkdir(parents=True, exist_ok=True)
            (root / base / name).write_text(name)
    with ExitStack() as stack:
        stack.enter_context(fixtures.local(admin, root / "disk", f"{top}/disk"))
        stack.enter_context(fixtures.local(admin, root / "nested", f"{top}/disk/a/nested"))
        stack.enter_context(fixtures.local(admin, root / "far", f"{top}/far/below"))
        stack.enter_context(fixtures.mount(admin, "Alias", f"{top}/alias", {"paths": f"{top}/disk/a"}))
        build_index(admin)
        yield Place(top, root)


@pytest.fixture(scope="module")
def people(service: Service, admin: Client) -> Iterator[People]:
    people = People(service, admin)
    yield people
    people.close()


def make_rule(luck: random.Random, readers: list[int]) -> dict[str, Any]:
    rule: dict[str, Any] = {}
    if luck.random() < 0.5:
        rule |= {"hide": luck.choice(["^secret", "^b$", "c|red", "nested"]), "h_sub": luck.random() < 0.7}
    if luck.random() < 0.35:
        rule |= {"password": luck.choice([PASSWORD, "other"]), "p_sub": luck.random() < 0.6}
    if luck.random() < 0.35:
        rule |= {"read_users": [luck.choice(readers)], "read_users_sub": luck.random() < 0.6}
    return rule


@pytest.mark.parametrize("seed", range(2))
def test_every_caller_finds_what_their_listings_show(admin: Client, place: Place, people: People, seed: int) -> None:
    luck = random.Random(seed)
    first, two = people.new(permission=NO_PRIVILEGE), people.new(permission=NO_PRIVILEGE | SEE_HIDDEN)
    base = f"{place.top}/disk/a"
    at_home = people.new(permission=NO_PRIVILEGE | luck.choice([0, SKIP_PASSWORD]), base_path=base)
    with ExitStack() as stack:
        for path in luck.sample(place.paths, 5):
            stack.enter_context(fixtures.meta(admin, path, **make_rule(luck, [first.id, two.id, at_home.id])))
        visitor = stack.enter_context(guest(admin, permission=NO_PRIVILEGE))
        for client in (admin, first.client, two.client, visitor):
            for top, password in [(place.top, ""), (luck.choice(place.paths), PASSWORD)]:
                compare(client, top, "", password)
        compare(at_home.client, "/", base, luck.choice(["", PASSWORD]))


def compare(client: Client, top: str, base: str, password: str) -> None:
    listed = client.post("/api/fs/list", path=top, password=password)
    if listed["code"] != 200:
        answer = client.post("/api/fs/search", parent=top, password=password, keywords="red", page=1, per_page=9)
        assert get_refusal(answer) == get_refusal(listed)
        return
    paths = find_all(client, top, password=password)
    assert len(set(paths)) == len(paths)
    assert set(paths) == walk(client, top, base, password)


def test_what_a_rule_hides_is_not_counted(admin: Client, place: Place, people: People) -> None:
    someone = people.new(permission=NO_PRIVILEGE).client
    disk = f"{place.top}/disk"
    every = find(someone, "secret", disk)
    assert every == find(admin, "secret", disk) and len(every) == 8
    with fixtures.meta(admin, f"{disk}/b", hide="^secret", h_sub=True):
        paths = find(someone, "secret", disk)
        assert paths == [path for path in every if not path.startswith(f"{disk}/b/")]
        assert search(someone, "secret", disk, per_page=3)["total"] == len(paths) == 6
        assert find(admin, "secret", disk) == every
    assert find(someone, "secret", disk) == every


def test_the_password_of_a_folder_opens_it_to_a_search(admin: Client, place: Place, people: People) -> None:
    someone, locked = people.new(permission=NO_PRIVILEGE).client, f"{place.top}/disk/b"
    every = find(someone, "deep", f"{place.top}/disk")
    with fixtures.meta(admin, locked, password=PASSWORD, p_sub=True):
        assert (
            find(someone, "deep", f"{place.top}/disk") == [path for path in every if f"{locked}/" not in path] != every
        )
        assert find(someone, "deep", f"{place.top}/disk", password=PASSWORD) == every
        answer = someone.post("/api/fs/search", parent=f"{locked}/a", keywords="deep", page=1, per_page=9)
        assert get_refusal(answer) == UNREADABLE
        assert find(someone, "deep", f"{locked}/a", password=PASSWORD) == [f"{locked}/a/c/deep.md"]


def test_a_home_has_no_neighbours(admin: Client, place: Place, people: People) -> None:
    home = people.new(permission=NO_PRIVILEGE, base_path=f"{place.top}/disk/b").client
    assert find(home, "deep") == [f"{place.top}/disk/b/{folder_name}/c/deep.md" for folder_name in "ab"]
    assert get_refusal(home.post("/api/fs/search", parent="/../a", keywords="deep", page=1, per_page=9))[0] == 403


def test_who_is_not_let_in_searches_nothing(admin: Client, service: Service) -> None:
    code, message = get_refusal(service.anonymous().post("/api/fs/search", keywords="x", page=1, per_page=9))
    assert (code, message) == (401, "Guest user is disabled, login please")
