"""Another account of the machine writes into the records engine: it gains no access, and the log names the record.

The service's engine is open to all accounts, as it is if the kernel gives it no namespace of its own.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import httpx
import pytest

from tests.support import engine as engines
from tests.support.service import ADMIN_PASSWORD, Client, Service, start_service

pytestmark = pytest.mark.xdist_group("exposed")  # one service for all of them
PASSWORD = "wrong horse battery"
WAIT_SECONDS = 120.0
KEYS = {"aws_access_key_id": "a", "aws_secret_access_key": "s", "region_name": "us-east-1"}
Item = dict[str, dict[str, Any]]


class Attacker:
    """Reaches the engine as any program of the machine does; has no key and no right to the data directory."""

    def __init__(self, service: Service, endpoint: str) -> None:
        self.service = service
        self._endpoint = endpoint
        self._client = boto3.client("dynamodb", endpoint_url=endpoint, **KEYS)
        self._log = service.data.parent / f"{service.data.name}.log"
        self._before: list[tuple[str, Item]] = []

    def read(self, kind: str, **key: int | str) -> Item:
        item: Item = self._client.get_item(TableName=f"mangrove-{kind}", Key=self._make_key(key))["Item"]
        return item

    def write(self, kind: str, item: Item) -> None:
        """Put a record into its table, until `undo`."""
        key = {name: item[name] for name in ("id", "key", "name") if name in item}
        key = dict(list(key.items())[:1])
        self._before.append((kind, self._client.get_item(TableName=f"mangrove-{kind}", Key=key)["Item"]))
        self._client.put_item(TableName=f"mangrove-{kind}", Item=item)

    def undo(self) -> None:
        while self._before:
            kind, item = self._before.pop()
            self._client.put_item(TableName=f"mangrove-{kind}", Item=item)
        self._have_read_anew()

    def forget(self, kind: str) -> None:
        """Leave the records of a kind as they are by now."""
        self._before = [(other_kind, item) for other_kind, item in self._before if other_kind != kind]

    def restart(self) -> None:
        """End the service, and start it as it was."""
        self.service.stop()
        self.service = start_service(self.service.data, MANGROVE_DYNAMODB_ENDPOINT=self._endpoint)

    def _make_key(self, key: Mapping[str, int | str]) -> Item:
        return {name: {"N": str(value)} if isinstance(value, int) else {"S": value} for name, value in key.items()}

    def strike(self, is_in_effect: Callable[[], bool], *names: str) -> None:
        """Have the service read what was written, as its next start does: it names the records, and nothing else is
        to be seen."""
        self._have_read_anew()
        end = time.monotonic() + WAIT_SECONDS
        while not is_in_effect() and not all(name in self.refusals() for name in names):
            assert time.monotonic() < end, (names, self.refusals())
            time.sleep(0.02)
        assert not is_in_effect()
        assert set(names) <= self.refusals()

    def _have_read_anew(self) -> None:
        os.kill(self.service.process.pid, signal.SIGHUP)

    def refusals(self) -> set[str]:
        """The records that the log names as refused, `<kind> <key>`."""
        lines = [line for line in self._log.read_text().splitlines() if "is refused" in line and line.endswith("}")]
        refusals = [json.loads(line)["facts"] for line in lines]
        return {f"{facts['table']} {facts['key']}" for facts in refusals}


@pytest.fixture(scope="module")
def attacker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacker]:
    with engines.engine() as endpoint:
        folder: Path = tmp_path_factory.mktemp("exposed")
        attacker = Attacker(start_service(folder / "data", MANGROVE_DYNAMODB_ENDPOINT=endpoint), endpoint)
        try:
            yield attacker
        finally:
            attacker.service.kill()


@pytest.fixture
def strikes(attacker: Attacker) -> Iterator[Attacker]:
    yield attacker
    attacker.undo()


@pytest.fixture(scope="module")
def boss(attacker: Attacker) -> Client:
    return attacker.service.client()


@dataclass(frozen=True)
class Person:
    id: int
    name: str
    client: Client


def make_person(boss: Client, service: Service, **fields: Any) -> Person:
    name = uuid4().hex
    boss.ok("/api/admin/user/create", username=name, password=PASSWORD, base_path="/", role=0, **fields)
    rows = boss.get("/api/admin/user/list")["data"]["content"]
    (id,) = [row["id"] for row in rows if row["username"] == name]
    return Person(id, name, service.client(name, PASSWORD) if not fields.get("disabled") else service.anonymous())


def signs_in(service: Service, name: str, password: str) -> bool:
    answer = service.anonymous().post("/api/auth/login", username=name, password=password)
    assert answer["code"] in (200, 400, 401, 429), answer
    return bool(answer["code"] == 200)


def is_admin(address: str, token: str) -> bool:
    return (
        httpx.get(f"{address}/api/admin/user/list", headers={"authorization": token}, timeout=60).json()["code"] == 200
    )


def add_numbers(item: Item) -> Item:
    return item | {"role": {"N": "2"}, "permission": {"N": "65535"}}


FORGERIES: dict[str, Callable[[Item], Item]] = {
    "as it is": add_numbers,
    "without the MAC": lambda item: {name: value for name, value in add_numbers(item).items() if name != "mac"},
    "with an empty MAC": lambda item: add_numbers(item) | {"mac": {"B": b""}},
    "with a MAC of another type": lambda item: add_numbers(item) | {"mac": {"L": [{"N": "1"}]}},
    "as a later version": lambda item: add_numbers(item) | {"version": {"N": "9"}},
}


@pytest.mark.parametrize("how", FORGERIES)
def test_a_role_that_was_written_into_the_records_makes_no_administrator(
    strikes: Attacker, boss: Client, how: str
) -> None:
    person = make_person(boss, strikes.service)
    strikes.write("users", FORGERIES[how](strikes.read("users", id=person.id)))
    strikes.strike(lambda: is_admin(person.client.address, person.client.token), f"users {person.id}")
    assert not signs_in(strikes.service, person.name, PASSWORD)
    assert boss.get("/api/me")["data"]["username"] == "admin"


@pytest.mark.parametrize("name", ["base_path", "username", "sso_id"])
def test_no_other_attribute_of_a_user_can_be_written_either(strikes: Attacker, boss: Client, name: str) -> None:
    person = make_person(boss, strikes.service)
    strikes.write("users", strikes.read("users", id=person.id) | {name: {"S": "/else"}})
    strikes.strike(lambda: "/else" in str(boss.get("/api/admin/user/list")), f"users {person.id}")


def test_moved_password_hash_signs_nobody_in(strikes: Attacker, boss: Client) -> None:
    person = make_person(boss, strikes.service)
    own, admins = strikes.read("users", id=person.id), strikes.read("users", id=1)
    strikes.write("users", admins | {"password_hash": own["password_hash"]})
    strikes.strike(lambda: signs_in(strikes.service, "admin", PASSWORD), "users 1")
    assert not signs_in(strikes.service, "admin", ADMIN_PASSWORD), "the whole record is refused"
    assert person.client.get("/api/me")["code"] == 200
    strikes.undo()
    end = time.monotonic() + WAIT_SECONDS
    while boss.get("/api/me")["code"] != 200:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_whole_record_that_was_copied_over_another_is_refused(strikes: Attacker, boss: Client) -> None:
    person = make_person(boss, strikes.service)
    strikes.write("users", strikes.read("users", id=1) | {"id": {"N": str(person.id)}})

    def has_second_administrator() -> bool:
        rows = boss.get("/api/admin/user/list")["data"]["content"]
        return any(row["id"] == person.id and row["role"] == 2 for row in rows)

    strikes.strike(has_second_administrator, f"users {person.id}")


def test_a_disabled_user_stays_so(strikes: Attacker, boss: Client) -> None:
    person = make_person(boss, strikes.service, disabled=True)
    strikes.write("users", strikes.read("users", id=person.id) | {"disabled": {"BOOL": False}})
    strikes.strike(lambda: signs_in(strikes.service, person.name, PASSWORD), f"users {person.id}")


def make_rule(boss: Client, **fields: Any) -> tuple[int, str]:
    """A folder with a file under a rule: its id and its path."""
    path = f"/files/{uuid4().hex}"
    assert boss.put(f"{path}/secret.txt", b"secret")["code"] == 200
    boss.ok("/api/admin/meta/create", path=path, p_sub=True, read_users_sub=True, **fields)
    rows = boss.get("/api/admin/meta/list")["data"]["content"]
    (id,) = [row["id"] for row in rows if row["path"] == path]
    return id, path


def reads(client: Client, path: str, password: str = "") -> bool:
    return bool(client.post("/api/fs/list", path=path, password=password)["code"] == 200)


def test_nobody_writes_himself_into_the_readers_of_a_rule(strikes: Attacker, boss: Client) -> None:
    person = make_person(boss, strikes.service)
    id, path = make_rule(boss, read_users=[1])
    assert not reads(person.client, path)
    strikes.write("metas", strikes.read("metas", id=id) | {"read_users": {"S": f"[1, {person.id}]"}})
    strikes.strike(lambda: reads(person.client, path), f"metas {id}")
    assert not reads(person.client, f"{path}/secret.txt")
    assert reads(person.client, "/files")


def test_a_rule_without_its_password_locks_the_folder(strikes: Attacker, boss: Client) -> None:
    person = make_person(boss, strikes.service)
    id, path = make_rule(boss, password="locked")
    other, _ = make_rule(boss, password="known")
    known = strikes.read("metas", id=other)["password"]
    strikes.write("metas", strikes.read("metas", id=id) | {"password": known})
    strikes.strike(lambda: reads(person.client, path, "known"), f"metas {id}")
    assert not reads(person.client, path)


def test_public_text_moved_into_token_grants_nothing(strikes: Attacker, boss: Client) -> None:
    text = f"everybody may read this {uuid4().hex}"
    answer = boss.http.post("/api/admin/setting/save", json=[{"key": "announcement", "value": text}])
    assert answer.json()["code"] == 200
    public = strikes.read("settings", key="announcement")
    strikes.write("settings", strikes.read("settings", key="token") | {"value": public["value"]})
    strikes.strike(lambda: is_admin(boss.address, text), "settings token")
    health = httpx.get(f"{boss.address}/health", timeout=60)
    assert health.status_code == 503
    assert "settings" in health.text
    assert boss.get("/api/me")["code"] == 200


def test_a_storage_does_not_show_the_folder_of_another(strikes: Attacker, boss: Client, tmp_path: Path) -> None:
    ids, paths = [], []
    for name in ("public", "private"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").touch()
        paths.append(f"/{uuid4().hex}")
        addition = json.dumps({"root_folder_path": str(tmp_path / name)})
        fields = {"mount_path": paths[-1], "driver": "Local", "addition": addition}
        ids.append(boss.ok("/api/admin/storage/create", **fields)["id"])
    forged = strikes.read("storages", id=ids[0]) | {"addition": strikes.read("storages", id=ids[1])["addition"]}
    strikes.write("storages", forged)

    def shows_private() -> bool:
        boss.post("/api/admin/storage/load_all")
        answer = boss.post("/api/fs/list", path=paths[0], refresh=True)
        return "private.txt" in str(answer)

    strikes.strike(shows_private, f"storages {ids[0]}")
    assert boss.names(paths[1]) == ["private.txt"]


def test_a_key_does_not_become_that_of_another_user(strikes: Attacker, boss: Client) -> None:
    attacker, victim = (make_person(boss, strikes.service) for _ in range(2))
    key = f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{'A' * 42}M {attacker.name}"
    attacker.client.ok("/api/me/sshkey/add", title=attacker.name, key=key)
    (row,) = attacker.client.get("/api/me/sshkey/list")["data"]["content"]
    strikes.write("sshkeys", strikes.read("sshkeys", id=row["id"]) | {"user_id": {"N": str(victim.id)}})
    strikes.strike(lambda: bool(victim.client.get("/api/me/sshkey/list")["data"]["content"]), f"sshkeys {row['id']}")
    assert attacker.client.get("/api/me/sshkey/list")["data"]["content"] == []


def test_forged_names_and_counters_reveal_no_foreign_record(strikes: Attacker, boss: Client) -> None:
    person = make_person(boss, strikes.service)
    before = boss.get("/api/admin/user/list")["data"]["content"]
    strikes.write("names", strikes.read("names", name="users#admin") | {"owner": {"N": str(person.id)}})
    strikes.write("counters", strikes.read("counters", key="id#users") | {"value": {"N": "0"}})
    fields = {"password": PASSWORD, "base_path": "/", "role": 0}
    made = [boss.post("/api/admin/user/create", username=f"{person.name}{nth}", **fields) for nth in range(9)]
    assert person.client.post("/api/me/update", username="admin", password="", sso_id="")["code"] == 500
    after = boss.get("/api/admin/user/list")["data"]["content"]
    assert [row for row in after if not row["username"].startswith(person.name)] == [
        row for row in before if row["username"] != person.name
    ]
    assert (
        len({row["id"] for row in after}) == len(after) == len(before) + [answer["code"] for answer in made].count(200)
    )
    strikes.forget("counters")


def test_the_service_starts_among_records_that_it_refuses(strikes: Attacker, boss: Client) -> None:
    person, text = make_person(boss, strikes.service), f"everybody may read this {uuid4().hex}"
    assert boss.http.post("/api/admin/setting/save", json=[{"key": "announcement", "value": text}]).status_code == 200
    id, path = make_rule(boss, read_users=[1])
    public = strikes.read("settings", key="announcement")["value"]
    strikes.write("users", add_numbers(strikes.read("users", id=person.id)))
    strikes.write("metas", strikes.read("metas", id=id) | {"read_users": {"NULL": True}})
    strikes.write("settings", strikes.read("settings", key="token") | {"value": public})
    strikes.restart()
    strikes.service.client().get("/api/admin/user/list")  # users are read when they are asked for
    assert {f"users {person.id}", f"metas {id}", "settings token"} <= strikes.refusals()
    again = strikes.service.client()
    assert not is_admin(again.address, text)
    assert not is_admin(again.address, person.client.token)
    assert not reads(again, path)
    assert reads(again, "/files")
    assert httpx.get(f"{again.address}/health", timeout=60).status_code == 200, "it has made another token"
    strikes.forget("settings")
