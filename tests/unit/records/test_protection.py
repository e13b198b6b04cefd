"""Records from before the MAC are protected once; whatever is not protected after that is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import boto3
import pytest

from mangrove.records import metas, settings, storages
from mangrove.records.accounts import sshkeys, users
from mangrove.records.store import protection, schema
from mangrove.records.store.endpoints import Endpoint
from mangrove.records.store.schema import UntrustedSchema
from mangrove.records.tasks import model as tasks
from mangrove.records.tasks.model import NewTask, TaskView
from tests.old_records import make_old, read_items, read_master

pytestmark = pytest.mark.usefixtures("records")
KINDS = ("users", "metas", "settings", "storages", "sshkeys", "tasks")
VIEW = TaskView("t1", "name", "ann", 0, 0, "", 0.0, None, None, 0, "")


def make_records() -> None:
    now = datetime.now(UTC)
    user = users.create(username="ann", password_hash="h", otp_secret="o", role=2, permission=7)
    users.change(user.id, permission=8)
    metas.create(path="/a", password="p", read_users=[1], hide="x")
    settings.save({"token": "t", "empty": ""})
    storages.create(mount_path="/s", driver="Local", addition="{}", modified=now)
    key = {"title": "t", "name": "1#t", "text": "x", "fingerprint": "f", "added": now, "last_used": now}
    sshkeys.create(user_id=1, **key)
    tasks.create(NewTask("copy", 1, VIEW, {"from": "/a"}))
    tasks.acquire_lease("t1", "worker", 60)


def read_all() -> list[Any]:
    return [users.all(), metas.all(), settings.all(), storages.all(), sshkeys.all(), tasks.get("t1").spec]


@pytest.mark.parametrize("done", [(), ("users", "tasks"), KINDS])
def test_an_upgrade_protects_what_is_not_protected_yet_and_changes_nothing_else(
    engine: str, done: tuple[str, ...]
) -> None:
    make_records()
    before = read_all()
    make_old(Endpoint(engine), read_master(), tuple(kind for kind in KINDS if kind not in done))
    assert schema.read_version() == schema.FIRST
    schema.upgrade(schema.FIRST)
    assert read_all() == before
    assert schema.read_version() == schema.get_known()
    assert users.change(before[0][0].id, permission=9).permission == 9
    upgraded = [read_items(engine, kind) for kind in KINDS]
    protection.protect_all()
    assert [read_items(engine, kind) for kind in KINDS] == upgraded, "a second time there is nothing to do"


def test_records_from_before_are_refused_where_no_upgrade_is_due(engine: str) -> None:
    make_records()
    make_old(Endpoint(engine), read_master())
    assert (users.all(), metas.all(), settings.all(), storages.all(), sshkeys.all()) == ([], [], {}, [], [])


def write_version(engine: str, value: str, **others: Any) -> None:
    item = {"key": {"S": "schema"}, "value": {"N": value}, "program": {"S": "0.1.0"}, **others}
    boto3.client("dynamodb", endpoint_url=engine).put_item(TableName="mangrove-counters", Item=item)


@pytest.mark.parametrize("value", ["2", "3", "4", "1000000", "0"])
def test_a_version_that_another_program_wrote_is_not_believed(engine: str, value: str) -> None:
    schema.note_new()
    write_version(engine, value)
    with pytest.raises(UntrustedSchema, match="written with another key or by another program"):
        schema.read_version()


def test_a_version_below_the_known_one_is_not_believed(engine: str) -> None:
    schema.note_new()
    assert schema.read_version(known=2) == schema.get_known()
    write_version(engine, "1")
    assert schema.read_version() == 1
    with pytest.raises(UntrustedSchema, match="they were of version 2 before"):
        schema.read_version(known=2)
    boto3.client("dynamodb", endpoint_url=engine).delete_item(
        TableName="mangrove-counters", Key={"key": {"S": "schema"}}
    )
    with pytest.raises(UntrustedSchema, match="they were of version 2 before"):
        schema.read_version(known=2)
