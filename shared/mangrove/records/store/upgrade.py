"""The version of the records, and the upgrade from records of Mangrove 0.3.0 to the present version.

A package that changes the stored form of its records adds a step to `make_steps`. A step may be interrupted and run
again, so it skips records in the new form.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import orjson
from botocore.exceptions import ClientError
from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.constants import BINARY, STRING

from mangrove.core.problems import Problem
from mangrove.records import users
from mangrove.records.store.base import Protected, TableMeta, get_connection, table_name, translate_errors
from mangrove.records.store.counters import Counter
from mangrove.records.store.encryption import EncryptedAttribute, Plaintext
from mangrove.records.tasks.model import Task, TaskRecord, make_decrypted_task
from mangrove.records.tasks.ordering import TaskStatus
from mangrove.records.tasks.uploads import UploadRecord

KEY = "schema"
VERSION = 4  # of the records of this program
PROGRAM = "0.4.0"  # the oldest program that supports it
UPGRADABLE = 3  # the version from which the upgrade starts
PROGRAMS = {1: "0.1.0", 2: "0.2.0", UPGRADABLE: "0.3.0"}

Item = dict[str, Any]
Step = Callable[[], None]
Translate = Callable[[Task], Task]


class NewerSchema(Problem):
    """A newer program wrote the records."""


class OlderSchema(Problem):
    """A program wrote the records from which there is no upgrade to this one."""


class UntrustedSchema(Problem):
    """Another deployment or program wrote the version in the records."""


class SchemaVersion(Protected):
    """The version of the records."""

    class Meta(TableMeta):
        table_name = table_name("counters")

    key = UnicodeAttribute(hash_key=True)
    value = NumberAttribute()
    program = UnicodeAttribute()  # the oldest program that supports the version


def read_version(known: int = 0) -> int | None:
    """Return the version of the records, None for new records, which have neither a version nor a user.

    `known` is their last version, from a place where only this deployment writes: otherwise a process that lowers the
    version in the records could have its own records upgraded. Raise NewerSchema, OlderSchema or UntrustedSchema.
    """
    version, program = _read()
    if version is None and not known:
        return None
    version = version or 1
    if version > VERSION:
        raise NewerSchema(
            f"the records are of version {version}, this program knows {VERSION}: use Mangrove {program} or newer"
        )
    if version < known:
        raise UntrustedSchema(f"the records are of version {version}, but they were of version {known} before")
    if version < UPGRADABLE:
        raise OlderSchema(
            f"the records are of version {version}, which Mangrove {PROGRAMS[version]} wrote: "
            f"start Mangrove {PROGRAMS[UPGRADABLE]} with them once, which upgrades them to version {UPGRADABLE}"
        )
    return version


def has_records() -> bool:
    """True if the records have a version or a user."""
    return Counter.find(KEY) is not None or _has_users()


def _has_users() -> bool:
    return any(True for role in users.ROLES for _ in users.iter_ids(role, page_size=1))


def _read() -> tuple[int | None, str]:
    """Return the version, None for new records, and the program that it needs. Raise UntrustedSchema."""
    stored = Counter.find(KEY)
    if stored is None:
        return (1 if _has_users() else None), PROGRAMS[1]  # version 1 was not stored
    if stored.value == 1:  # without a MAC
        return 1, PROGRAMS[1]
    record = SchemaVersion.find(KEY)
    if record is None:  # it is refused
        raise UntrustedSchema("what they say about their version was written with another key or by another program")
    return int(record.value), str(record.program)


def upgrade(version: int | None, steps: Sequence[Step]) -> None:
    """Upgrade records of a version to the present one, and store that version when all steps are done."""
    if version == VERSION:
        return
    if version is not None:
        for step in steps:
            step()
    with translate_errors():
        SchemaVersion(KEY, value=VERSION, program=PROGRAM).save()


TASK_NAMES = {"shown": "view", "turn": "attempt"}
OLD_REMOVED = "gone"


def make_steps(translate: Translate) -> tuple[Step, ...]:
    """Return the steps of the upgrade. `translate` returns a task with its specification and cursor in the new form."""
    return (partial(upgrade_tasks, translate), upgrade_uploads)


def upgrade_tasks(translate: Translate) -> None:
    """Rename the attributes of tasks, and translate their specifications and cursors.

    In the cloud the tasks of 0.3.0 are in another table: CloudFormation changes one index of a table at a time.
    """
    source = os.environ.get("MANGROVE_OLD_TASKS") or TaskRecord.Meta.table_name
    for item in _scan(source, "shelf"):
        _replace_task(convert_task(item, translate))


def convert_task(item: Item, translate: Translate) -> Item:
    """Return a task of 0.3.0 in its new form.

    A specification that cannot be decrypted or translated stays as it is: the owner sees that the task cannot be read.
    """
    task = {TASK_NAMES.get(name, name): value for name, value in item.items() if name not in ("shelf", "spread")}
    task["owner_key"] = {STRING: _rename_status(item["shelf"][STRING], 2)}
    task["shard_key"] = {STRING: _rename_status(item["spread"][STRING], 1)}
    encrypted = task.pop("facts")
    kind, key = TaskRecord.get_kind(), TaskRecord.get_key_name()
    try:
        attribute = EncryptedAttribute(attr_name="facts", bound_to=TaskRecord.spec.bound_to)
        plaintext = attribute.decrypt(kind, key, item)
        translated = translate(make_decrypted_task(task | {"spec": plaintext}))
        task["cursor"] = {STRING: orjson.dumps(translated.cursor).decode()}
        spec = {BINARY: Plaintext(orjson.dumps(translated.spec).decode())}
        task["spec"] = TaskRecord.spec.encrypt(kind, key, task | {"spec": spec})
    except (Problem, KeyError, TypeError, ValueError):
        task["spec"] = encrypted
    return task


def _rename_status(text: str, position: int) -> str:
    parts = text.split("#")
    if parts[position] == OLD_REMOVED:
        parts[position] = TaskStatus.REMOVED.value
    return "#".join(parts)


def _replace_task(task: Item) -> None:
    """Store a converted task, unless it is already stored."""
    condition = "attribute_not_exists(id) OR attribute_exists(shelf)"
    _write("put_item", TaskRecord.Meta.table_name, Item=task, ConditionExpression=condition)


def upgrade_uploads() -> None:
    """Rename the attribute of uploads in parts."""
    for item in _scan(UploadRecord.Meta.table_name, "facts"):
        _write(
            "update_item",
            UploadRecord.Meta.table_name,
            Key={name: item[name] for name in ("place", "item")},
            UpdateExpression="SET #new = #old REMOVE #old",
            ConditionExpression="attribute_exists(#old)",
            ExpressionAttributeNames={"#old": "facts", "#new": "spec"},
        )


def _scan(table: str, old_name: str) -> Iterator[Item]:
    """Yield the records of a table that still have an attribute of 0.3.0."""
    options: dict[str, Any] = {"TableName": table, "ConsistentRead": True}
    while True:
        with translate_errors():
            page = get_connection(TaskRecord).client.scan(**options)
        yield from (item for item in page["Items"] if old_name in item)
        if "LastEvaluatedKey" not in page:
            return
        options["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def _write(operation: str, table: str, **options: Any) -> None:
    """Write a record, unless its condition is false: then it has the new form."""
    with translate_errors():
        try:
            getattr(get_connection(TaskRecord).client, operation)(TableName=table, **options)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise
