"""Records that another program wrote are refused, whatever it wrote; sealed text opens in its place alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest

from mangrove.core import runtime
from mangrove.core.config import Config
from mangrove.core.problems import Problem, RecordNotFound
from mangrove.core.runtime import Runtime
from mangrove.records import (  # noqa: F401 - each defines a protected record
    groups,
    login_challenges,
    metas,
    passkeys,
    settings,
    share_links,
    storages,
    users,
)
from mangrove.records.credentials import app_passwords, ssh_keys
from mangrove.records.store import encryption
from mangrove.records.store.base import Protected, Record, connections
from mangrove.records.store.encryption import decrypt, encrypt
from mangrove.records.store.keys import Keyring
from mangrove.records.store.upgrade import SchemaVersion
from mangrove.records.tasks import model as tasks
from mangrove.records.tasks.model import NewTask, TaskView

pytestmark = pytest.mark.usefixtures("records")
RECORD_TIME = datetime.now(UTC)
VIEW = TaskView("t1", "name", "ann", 0, 0, "", 0.0, None, None, 0, "")
Item = dict[str, Any]


class Table:
    """A table as any program sees it."""

    def __init__(self, endpoint: str, kind: str) -> None:
        self._client = boto3.client("dynamodb", endpoint_url=endpoint)
        self._table = {"TableName": f"mangrove-{kind}"}

    def read(self) -> list[Item]:
        items: list[Item] = self._client.scan(**self._table)["Items"]
        return sorted(items, key=str)

    def write(self, item: Item) -> None:
        self._client.put_item(**self._table, Item=item)


@pytest.fixture
def open_table(engine: str) -> Callable[[str], Table]:
    return lambda kind: Table(engine, kind)


def make_storage(path: str) -> None:
    storages.create(mount_path=path, driver="Local", addition='{"root_folder_path": "/a"}', modified=RECORD_TIME)


def make_key(user_id: int) -> None:
    ssh_keys.create(
        user_id=user_id,
        title="t",
        name=f"{user_id}#t",
        text="x",
        fingerprint="f",
        added=RECORD_TIME,
        last_used=RECORD_TIME,
    )


def make_app_password(user_id: int) -> None:
    name = f"{user_id}#t"
    app_passwords.create(user_id=user_id, title="t", name=name, digest="d", added=RECORD_TIME, last_used=RECORD_TIME)


def make_passkey(user_id: int) -> None:
    passkeys.passkeys.create(
        user_id=user_id,
        title="t",
        name="credential",
        public_key="k",
        sign_count=1,
        aaguid="a",
        added=RECORD_TIME,
        last_used=RECORD_TIME,
    )


MAKERS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "users": (lambda: users.create(username="ann", password_hash="h", role=0), users.all),
    "metas": (lambda: metas.create(path="/a", password="p", read_users=[1]), metas.all),
    "settings": (lambda: settings.save({"token": "t"}), settings.all),
    "storages": (lambda: make_storage("/s"), storages.all),
    "sshkeys": (lambda: make_key(1), ssh_keys.all),
    "groups": (lambda: groups.create(name="g", members=[1], permission=1, folders=[["/a", 8]]), groups.all),
    "app_passwords": (lambda: make_app_password(1), app_passwords.all),
    "passkeys": (lambda: make_passkey(1), passkeys.passkeys.all),
}


def change(value: dict[str, Any]) -> dict[str, Any]:
    """Another value of the same type."""
    ((kind, field),) = value.items()
    if kind == "BOOL":
        return {kind: not field}
    return {kind: field[:-1] + bytes([field[-1] ^ 1]) if kind == "B" else {"N": "77", "S": f"{field}x"}[kind]}


@pytest.mark.parametrize("kind", MAKERS)
def test_record_with_changed_attribute_is_refused(open_table: Callable[[str], Table], kind: str) -> None:
    make, read_all = MAKERS[kind]
    make()
    table, before = open_table(kind), read_all()
    (item,) = table.read()
    forged = [item | {name: change(value)} for name, value in item.items() if name not in ("id", "key")]
    forged += [
        {variant: value for variant, value in item.items() if variant != name}
        for name in item
        if name not in ("id", "key")
    ]
    forged += [item | {"new": {"S": ""}}, item | {"mac": {"S": "x"}}, item | {"mac": {"B": b""}}]
    for variant in forged:
        table.write(variant)
        rows_read = read_all()
        assert not rows_read or (kind == "metas" and rows_read[0].read_users == metas.NO_USERS), variant
    table.write(item)
    assert read_all() == before


def test_a_refused_record_is_missing_wherever_it_is_read_and_named_once(
    open_table: Callable[[str], Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = (users.create(username=name, password_hash="h") for name in ("ann", "bob"))
    table = open_table("users")
    (first,) = (item for item in table.read() if item["id"] == {"N": str(ann.id)})
    named: list[object] = []
    monkeypatch.setattr(encryption, "log_warning", lambda message, **facts: named.append(facts))
    table.write(first | {"role": {"N": "2"}})
    for _ in range(2):
        assert users.all() == [bob]
        assert users.get_many([ann.id, bob.id]) == {bob.id: bob}
        with pytest.raises(RecordNotFound):
            users.get(ann.id)
        with pytest.raises(RecordNotFound):
            users.change(ann.id, permission=1)
    assert connections().refused.has("users")
    assert named == [{"table": "users", "key": str(ann.id)}]
    table.write(first)
    assert users.all() == [ann, bob]
    assert not connections().refused.has("users")


@pytest.mark.parametrize("kind", ["users", "storages"])
def test_record_is_refused_under_other_key_or_table(open_table: Callable[[str], Table], kind: str) -> None:
    make, read_all = MAKERS[kind]
    make()
    table, before = open_table(kind), read_all()
    (item,) = table.read()
    table.write(item | {"id": {"N": "5"}})
    open_table("metas").write(item)
    assert read_all() == before
    assert metas.all() == []


def test_a_refused_rule_locks_its_folder_until_an_administrator_saves_it(open_table: Callable[[str], Table]) -> None:
    rule = metas.create(path="/a", password="p", readme="r")
    table = open_table("metas")
    (item,) = table.read()
    table.write(item | {"path": {"S": "/else"}, "password": {"B": b""}})
    (locked,) = metas.all()
    assert (locked.path, locked.read_users, locked.read_users_sub) == ("/a", metas.NO_USERS, True)
    assert (locked.write_users, locked.write_users_sub) == (metas.NO_USERS, True)
    saved = metas.change(rule.id, read_users=None, write_users=None, password="q")
    assert metas.all() == [saved]
    assert (saved.path, saved.password, connections().refused.has("metas")) == ("/a", "q", False)


@pytest.mark.parametrize("item", [
    {"id": {"N": "9"}, "path": {"S": "/"}},
    {"id": {"N": "9"}, "path": {"S": "/"}, "sealed_path": {"B": b"short"}, "version": {"N": "1"}},
    {"id": {"N": "9"}, "path": {"S": "/"}, "sealed_path": {"S": "/"}, "version": {"N": "1"}},
])  # fmt: skip
def test_a_rule_that_another_program_made_locks_nothing(open_table: Callable[[str], Table], item: Item) -> None:
    rule = metas.create(path="/a")
    open_table("metas").write(item)
    assert metas.all() == [rule]


def test_a_rule_locks_no_other_folder_by_the_seal_of_another(open_table: Callable[[str], Table]) -> None:
    metas.create(path="/a")
    table = open_table("metas")
    (item,) = table.read()
    table.write(item | {"id": {"N": "9"}})
    assert [rule.path for rule in metas.all()] == ["/a"]


@pytest.mark.parametrize("name", ["spec", "owner", "kind", "id"])
def test_task_spec_is_decrypted_only_with_its_owner_and_kind(open_table: Callable[[str], Table], name: str) -> None:
    task = tasks.create(NewTask("copy", 7, VIEW, {"from": "/a"}))
    assert tasks.acquire_lease(task.id, "me", 60).spec == {"from": "/a"}
    table = open_table("tasks")
    (item,) = table.read()
    table.write(item | {name: {"S": "t2"} if name == "id" else change(item[name])})
    with pytest.raises(Problem, match="encrypted with another key, or copied"):
        tasks.get("t2" if name == "id" else task.id)


def test_a_protected_record_is_neither_updated_nor_refreshed_in_parts() -> None:
    user = users.UserRecord.get(users.create(username="ann", password_hash="h").id)
    for work in (
        lambda: user.update(actions=[users.UserRecord.role.set(2)]),
        lambda: user.get_update_kwargs_from_instance(actions=[users.UserRecord.role.set(2)]),
        user.refresh,
    ):
        with pytest.raises(TypeError):
            work()


def test_numbers_that_the_engine_might_write_in_another_way_are_not_saved() -> None:
    for number in (1.0, 1e30, True):
        with pytest.raises(TypeError, match="order is not a whole number"):
            storages.create(mount_path="/a", driver="Local", modified=RECORD_TIME, order=number)
    for number in (-5, 0, 10**20):
        make_storage(f"/{number}")
        id = storages.all()[0].id
        storages.change(id, order=number)
        assert storages.get(id).order == number


def test_sealed_text_is_never_written_open() -> None:
    record = tasks.TaskRecord("t1")
    with pytest.raises(Exception, match="Plaintext"):
        record.update(actions=[tasks.TaskRecord.spec.set("in clear")])


def test_what_grants_something_is_protected() -> None:
    def list_models(base: type[Record]) -> set[str]:
        return {name for model in base.__subclasses__() for name in {model.__name__, *list_models(model)}}

    protected = {
        "UserRecord",
        "PathRuleRecord",
        "SettingRecord",
        "VisibleSettingRecord",
        "StorageRecord",
        "SshKeyRecord",
        "AppPasswordRecord",
    }
    protected |= {"GroupRecord", "PasskeyRecord", "ChallengeRecord", "ShareLinkRecord"}
    protected |= {SchemaVersion.__name__}
    assert list_models(Protected) == protected | {"Versioned"}


def test_refused_names_are_remembered_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encryption, "MAX_REFUSED_RECORDS", 3)
    for number in range(10):
        connections().refused.add("users", str(number))
    assert len(connections().refused._refused) <= 3
    assert connections().refused.has("users")


CONTEXT = b"where it is kept"


@pytest.fixture
def key(tmp_path: Path, own_runtime: Runtime) -> Path:
    """The file of the master key of a process that has not read it yet."""
    path = tmp_path / "master"
    path.write_bytes(b"k" * 32)
    runtime.put(Config, replace(Config(), key_file=path))
    runtime.put(Keyring, Keyring())
    return path


def test_what_is_sealed_is_opened_again_and_never_looks_the_same(key: Path) -> None:
    text = "secret \N{SNOWMAN}"
    first, second = encrypt(text, CONTEXT), encrypt(text, CONTEXT)
    assert first != second
    assert text.encode() not in first
    assert decrypt(first, CONTEXT) == decrypt(second, CONTEXT) == text
    assert decrypt(encrypt("", CONTEXT), CONTEXT) == ""


@pytest.mark.parametrize("flaw", ["another key", "another byte", "cut", "empty", "another place"])
def test_what_another_key_sealed_or_what_was_changed_is_refused(key: Path, flaw: str) -> None:
    sealed = encrypt("secret", b"elsewhere" if flaw == "another place" else CONTEXT)
    if flaw == "another key":
        key.write_bytes(b"l" * 32)
        runtime.put(Keyring, Keyring())
    elif flaw == "another byte":
        sealed = sealed[:-1] + bytes([sealed[-1] ^ 1])
    elif flaw in ("cut", "empty"):
        sealed = sealed[: -1 if flaw == "cut" else 0]
    with pytest.raises(Problem, match="it was encrypted with another key"):
        decrypt(sealed, CONTEXT)


def test_secrets_are_sealed_in_the_table(records: None, engine: str) -> None:
    from mangrove.records import metas, settings, users

    users.create(username="u", password_hash="hash-in-clear", otp_secret="otp-in-clear")
    metas.create(path="/x", password="folder-in-clear")
    settings.save({"token": "token-in-clear"})
    client = boto3.client("dynamodb", endpoint_url=engine)
    for kind in ("users", "metas", "settings"):
        items = client.scan(TableName=f"mangrove-{kind}")["Items"]
        assert items
        assert "in-clear" not in str(items)
    assert users.all()[0].otp_secret == "otp-in-clear"
    assert settings.all() == {"token": "token-in-clear"}
