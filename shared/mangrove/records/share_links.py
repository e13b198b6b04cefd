"""Records of share links: each opens a part of its owner's tree to everybody who has the address.

A record grants something, so it is saved as a whole and has a MAC. The number of visits changes with every visitor: it
is a counter beside the record.
"""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from typing import Any

from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.indexes import KeysOnlyProjection

from mangrove.core.problems import RecordNotFound, RecordsUnavailable
from mangrove.records.store import counters
from mangrove.records.store.attributes import make_index
from mangrove.records.store.base import (
    NameTaken,
    RecordConflict,
    TableMeta,
    Versioned,
    query_index,
    retry_on_conflict,
    table_name,
    transaction,
    translate_errors,
)
from mangrove.records.store.counters import Counter

KIND = "shares"
INDEX = "owner"
VISIT_SECONDS = 1800  # for which the requests of one visitor are one visit
MAX_VISIT_ATTEMPTS = 40  # to count a visit that meets others; together they wait some seconds
MAX_VISIT_PAUSE_SECONDS = 0.2
TAKEN = "sharing id already exists"


@dataclass(frozen=True, slots=True)
class ShareFields:
    """The fields of a share link that its owner sets. Times are milliseconds since the epoch."""

    files: list[str]
    """Absolute paths in the tree."""
    password: str = ""
    """Empty for none."""
    expires: int | None = None
    """The time from which on it is over."""
    max_accessed: int = 0
    """The visits that it takes, 0 for any number."""
    disabled: bool = False
    remark: str = ""
    readme: str = ""
    header: str = ""
    order_by: str = ""
    order_direction: str = ""
    extract_folder: str = ""
    mode: str = "read"
    """`read`, `drop` or `both`."""
    max_file_size: int = 0
    """The bytes of the largest file that it takes, 0 for any number."""
    max_total_size: int = 0
    """The bytes of all files that it takes, 0 for any number."""
    max_files: int = 0
    """The files that it takes, 0 for any number."""
    extensions: list[str] = field(default_factory=list)
    """Extensions of files that it takes, in lower case and without a dot; empty for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareLink(ShareFields):
    """A share link."""

    id: str
    """The text in its address."""
    number: int
    """Its number, which stays the same when the id changes."""
    owner: int
    """The id of the user whose rights it has."""


class ShareLinkRecord(Versioned):
    class Meta(TableMeta):
        table_name = table_name(KIND)
        value = ShareLink
        encrypted = ("password",)

    by_owner = make_index(INDEX, KeysOnlyProjection(), owner=NumberAttribute, id=UnicodeAttribute)
    """The index of the ids of the share links of a user, in their order."""


_FIELDS = tuple(field.name for field in fields_of(ShareLink))


def _to_link(record: Any) -> ShareLink:
    return ShareLink(**{name: getattr(record, name) for name in _FIELDS})


def find(id: str) -> ShareLink | None:
    """Return the share link of an id, None if there is none."""
    record = ShareLinkRecord.find(id)
    return None if record is None else _to_link(record)


def get(id: str) -> ShareLink:
    """Return the share link of an id. Raise RecordNotFound."""
    return _to_link(_get_record(id))


def get_many(ids: Collection[str]) -> list[ShareLink]:
    """Return the share links of these ids, by id, without those that do not exist."""
    with translate_errors():
        links = [_to_link(record) for record in ShareLinkRecord.batch_get(ids, consistent_read=True)]
    return sorted(links, key=lambda link: link.id)


def all() -> list[ShareLink]:
    """Return all share links, by id."""
    with translate_errors():
        return sorted(map(_to_link, ShareLinkRecord.scan(consistent_read=True)), key=lambda link: link.id)


def find_ids(owner: int) -> list[str]:
    """Return the ids of the share links of a user, in their order. One that was just created may be missing."""
    return [row["id"]["S"] for row in query_index(ShareLinkRecord, INDEX, str(owner), ["id"])]


def create(id: str, **fields: Any) -> ShareLink:
    """Create a share link. Raise NameTaken if there is one with this id."""
    record = ShareLinkRecord(id, number=counters.next_id(KIND), **fields)
    try:
        with translate_errors():
            record.save()
    except RecordConflict:
        raise NameTaken("sharing already exist") from None
    return _to_link(record)


@retry_on_conflict
def change(id: str, new_id: str | None = None, **fields: Any) -> ShareLink:
    """Set fields of a share link, and its id. Raise RecordNotFound or NameTaken."""
    record = _get_record(id)
    for name, value in fields.items():
        setattr(record, name, value)
    if new_id is None or new_id == id:
        with translate_errors():
            record.save()
        return _to_link(record)
    return _move(record, new_id)


def _get_record(id: str) -> Any:
    record = ShareLinkRecord.find(id)
    if record is None:
        raise RecordNotFound
    return record


def _move(record: Any, new_id: str) -> ShareLink:
    """Replace a record by one with another id, in one transaction."""
    values = {name: getattr(record, name) for name in _FIELDS if name != "id"}
    moved = ShareLinkRecord(new_id, **values)
    try:
        with translate_errors(), transaction(ShareLinkRecord) as write:
            write.delete(record)
            write.save(moved)
    except RecordConflict as conflict:
        if conflict.failed and conflict.failed[-1]:
            raise NameTaken(TAKEN) from None
        raise
    return _to_link(moved)


@retry_on_conflict
def delete(id: str) -> None:
    """Delete a share link and its number of visits. Raise RecordNotFound."""
    record = _get_record(id)
    with translate_errors():
        record.delete()
    for key in list_counter_keys(record.number):
        with translate_errors():
            Counter(key).delete()


def delete_of(owner: int) -> None:
    """Delete the share links of a user."""
    for id in find_ids(owner):
        try:
            delete(id)
        except RecordNotFound:
            pass


def list_counter_keys(number: int) -> tuple[str, str, str]:
    """Return the keys of the counters of a share link: visits, uploaded files and their bytes."""
    return f"visits#{number}", f"upload files#{number}", f"upload bytes#{number}"


# Visits


def _make_visits_key(number: int) -> str:
    return f"visits#{number}"


def _make_visitor_key(number: int, visitor: str) -> str:
    return f"visit#{number}#{visitor}"


def count_visits(links: Sequence[ShareLink]) -> Mapping[int, int]:
    """Return the visits of share links, by their numbers."""
    keys = {_make_visits_key(link.number): link.number for link in links}
    with translate_errors():
        stored = {counter.key: int(counter.value) for counter in Counter.batch_get(list(keys), consistent_read=True)}
    return {number: stored.get(key, 0) for key, number in keys.items()}


def set_visits(link: ShareLink, visits: int) -> None:
    """Set the number of visits of a share link."""
    with translate_errors():
        Counter(_make_visits_key(link.number)).update(actions=[Counter.value.set(visits)])


def add_visit(link: ShareLink, visitor: str) -> bool:
    """Count the visit of a visitor, once within VISIT_SECONDS. False if the share link takes no more visits.

    `visitor`: a short text for the address. The number and the note of the visitor are written in one transaction, so
    that any number of first visits at the same time are never more than `max_accessed`.
    """
    for _ in range(MAX_VISIT_ATTEMPTS):
        visits, is_counted = _read_visit(link, visitor)
        if is_counted:
            return True
        if 0 < link.max_accessed <= visits:
            return False
        try:
            _write_visit(link, visitor)
            return True
        except RecordConflict:
            time.sleep(random.random() * MAX_VISIT_PAUSE_SECONDS)  # other visitors come at the same time
    raise RecordsUnavailable


def _read_visit(link: ShareLink, visitor: str) -> tuple[int, bool]:
    """Return the number of visits, and True if this visitor was counted lately."""
    visits_key, visitor_key = _make_visits_key(link.number), _make_visitor_key(link.number, visitor)
    with translate_errors():
        stored = {
            counter.key: counter for counter in Counter.batch_get([visits_key, visitor_key], consistent_read=True)
        }
    visits, note = stored.get(visits_key), stored.get(visitor_key)
    return int(visits.value) if visits else 0, note is not None and (note.until or 0) > time.time()


def _write_visit(link: ShareLink, visitor: str) -> None:
    now = time.time()
    visits = Counter(_make_visits_key(link.number))
    note = Counter(_make_visitor_key(link.number, visitor))
    is_new = Counter.key.does_not_exist() | (Counter.until < now)
    is_below = Counter.key.does_not_exist() | (Counter.value < link.max_accessed) if link.max_accessed > 0 else None
    with translate_errors(), transaction(Counter) as write:
        write.update(visits, actions=[Counter.value.add(1)], condition=is_below)
        write.update(note, actions=[Counter.value.set(1), *counters.make_end(now, VISIT_SECONDS)], condition=is_new)
