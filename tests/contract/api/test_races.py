"""Requests at one name at the same moment, over HTTP: one is acknowledged, and no acknowledged byte is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from tests import servers
from tests.contract.api import fixtures
from tests.support.service import Client, Service

pytestmark = pytest.mark.long


RENAMES = 60  # rounds of the race that destroyed most files
ROUNDS = 20
SLOW_ROUNDS = 6
CLIENTS = 8
EXISTS_MESSAGES = {"file exists", "file [x] exists"}
Envelope = dict[str, Any]


@dataclass(frozen=True)
class Racers:
    """Clients of one storage. `path`: its mount path; `roots`: the folders of this machine that hold its files."""

    clients: list[Client]
    path: str
    roots: tuple[Path, ...]
    rounds: int
    fills_disks: bool = True

    def fill(self, path: str, content: bytes) -> None:
        """A file, put there before the race."""
        if not self.fills_disks:
            assert self.clients[0].put(f"{self.path}/{path}", content)["code"] == 200
            return
        for root in self.roots:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content)

    def run(self, *requests: Callable[[Client], Envelope]) -> list[Envelope]:
        """The answers to requests that are sent together."""
        barrier = Barrier(len(requests))

        def send(client: Client, request: Callable[[Client], Envelope]) -> Envelope:
            barrier.wait()
            return request(client)

        with ThreadPoolExecutor(len(requests)) as pool:
            return list(pool.map(send, self.clients, requests))

    def read(self, path: str) -> bytes | None:
        """A file, the same on all disks; None where there is none."""
        files = [root / path for root in self.roots]
        contents = {file.read_bytes() if file.exists() else None for file in files}
        assert len(contents) == 1, (path, contents)
        return contents.pop()


def put(client: Client, folder: str, name: str) -> Envelope:
    return client.put(f"{folder}/to/x", name.encode(), overwrite="false")


def rename(client: Client, folder: str, name: str) -> Envelope:
    return client.post("/api/fs/rename", path=f"{folder}/to/{name}", name="x")


def rename_one_of_many(client: Client, folder: str, name: str) -> Envelope:
    renamed = [{"src_name": name, "new_name": "x"}]
    return client.post("/api/fs/batch_rename", src_dir=f"{folder}/to", rename_objects=renamed)


def move(client: Client, folder: str, name: str) -> Envelope:
    return client.post("/api/fs/move", src_dir=f"{folder}/{name}", dst_dir=f"{folder}/to", names=["x"])


def copy(client: Client, folder: str, name: str) -> Envelope:
    return client.post("/api/fs/copy", src_dir=f"{folder}/{name}", dst_dir=f"{folder}/to", names=["x"])


def move_files(client: Client, folder: str, name: str) -> Envelope:
    body = {"src_dir": f"{folder}/{name}", "dst_dir": f"{folder}/to", "conflict_policy": "cancel"}
    return client.post("/api/fs/recursive_move", **body)


PAIRS = [
    (put, rename), (put, move), (put, copy), (put, put), (move, move), (rename_one_of_many, move_files),
]  # fmt: skip


@pytest.fixture(params=["Local", "two folders under one name", "a server that asks for no condition"])
def racers(request: pytest.FixtureRequest, service: Service, admin: Client, tmp_path: Path) -> Iterator[Racers]:
    clients = [Client(service.address, admin.token) for _ in range(CLIENTS)]
    if request.param == "Local":
        with fixtures.local(admin, tmp_path) as path:
            yield Racers(clients, path, (tmp_path,), ROUNDS)
    elif "folders" in request.param:
        roots = tmp_path / "one", tmp_path / "two"
        for root in roots:
            root.mkdir()
        with fixtures.local(admin, roots[0]) as first, fixtures.local(admin, roots[1]) as two:
            policies = {"write_conflict_policy": "all", "put_conflict_policy": "all"}
            with fixtures.mount(admin, "Alias", addition={"paths": f"x:{first}\nx:{two}"} | policies) as path:
                yield Racers(clients, path, roots, SLOW_ROUNDS)
    else:
        (tmp_path / "bucket").mkdir()
        with servers.rclone_s3(tmp_path) as endpoint:
            with fixtures.mount(admin, "S3", addition=servers.s3_options(endpoint, "bucket")) as path:
                yield Racers(clients, path, (tmp_path / "bucket",), SLOW_ROUNDS, fills_disks=False)


@pytest.mark.parametrize(("first", "other"), PAIRS)
def test_one_of_two_requests_gets_a_free_name_and_the_other_is_told_so(racers: Racers, first: Any, other: Any) -> None:
    race(racers, racers.rounds, first, other)


def test_two_renames_to_one_free_name_destroy_no_file(racers: Racers) -> None:
    race(racers, RENAMES if racers.rounds == ROUNDS else racers.rounds, rename, rename)


def race(racers: Racers, rounds: int, first: Any, other: Any) -> None:
    """One request is acknowledged and its bytes are there; the other collides, and its source still is where it was."""
    for round in range(rounds):
        folder, names = f"{racers.path}/{round}", ("first", "second")
        for name in names:
            for path in (f"to/{name}", f"{name}/x"):
                racers.fill(f"{round}/{path}", name.encode())
        answers = racers.run(
            lambda client, folder=folder: first(client, folder, "first"),
            lambda client, folder=folder: other(client, folder, "second"),
        )
        assert sorted(answer["code"] for answer in answers) == [200, 403], answers
        refused = next(answer for answer in answers if answer["code"] == 403)
        assert refused["message"] in EXISTS_MESSAGES
        winner, loser = names if answers[0]["code"] == 200 else reversed(names)
        assert racers.read(f"{round}/to/x") == winner.encode()
        assert racers.read(f"{round}/to/{loser}") == racers.read(f"{round}/{loser}/x") == loser.encode()


def test_what_was_put_is_not_replaced_by_a_rename_that_looked_before(racers: Racers) -> None:
    for round in range(racers.rounds):
        folder = f"{racers.path}/{round}"
        racers.fill(f"{round}/old", b"old")
        answers = racers.run(
            lambda client, folder=folder: client.put(f"{folder}/x", b"put"),
            lambda client, folder=folder: client.post("/api/fs/rename", path=f"{folder}/old", name="x"),
        )
        assert answers[0]["code"] == 200 and answers[1]["code"] in (200, 403), answers
        assert racers.read(f"{round}/x") == b"put"


def test_of_many_bodies_at_one_name_one_is_stored(racers: Racers) -> None:
    for round in range(racers.rounds // 5):
        path = f"{racers.path}/{round}/x"
        contents = [bytes([number]) * 100_000 for number in range(CLIENTS)]
        puts = [
            lambda client, path=path, content=content: client.put(path, content, overwrite="false")
            for content in contents
        ]
        codes = [answer["code"] for answer in racers.run(*puts)]
        assert sorted(codes) == [200, *[403] * (CLIENTS - 1)]
        assert racers.read(f"{round}/x") == contents[codes.index(200)]
