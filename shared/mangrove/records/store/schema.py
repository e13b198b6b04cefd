"""The version of what the records mean, and the upgrades that lead to the present one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.exceptions import DoesNotExist

from mangrove.core.problems import Problem
from mangrove.records.store import keying, protection
from mangrove.records.store.base import Protected, TableMeta, table_name, translate_errors
from mangrove.records.store.counters import Counter

KEY = "schema"
FIRST_PROGRAM = "0.1.0"
FIRST = 1  # also of records that carry no version: those from before there was one


class NewerSchema(Problem):
    """The records were written by a newer version of the program."""


class UntrustedSchema(Problem):
    """What the records say about their version was not written by this deployment."""


class SchemaVersion(Protected):
    """`program`: the oldest version of it that knows the schema. That of version 1 carries no MAC."""

    class Meta(TableMeta):
        table_name = table_name("counters")

    key = UnicodeAttribute(hash_key=True)
    value = NumberAttribute()
    program = UnicodeAttribute()


@dataclass(frozen=True, slots=True)
class Upgrade:
    """One step to the next version. `apply` may meet records in which it was cut off; `program` brought it."""

    program: str
    apply: Callable[[], None]


UPGRADES: tuple[Upgrade, ...] = (Upgrade("0.2.0", protection.protect_all), Upgrade("0.3.0", keying.key_all))
"""The first leads from version 1 to 2. Entries are never removed or changed once they were released."""


def get_known(upgrades: Sequence[Upgrade] = UPGRADES) -> int:
    """The version that this program works with."""
    return FIRST + len(upgrades)


def read_version(upgrades: Sequence[Upgrade] = UPGRADES, known: int = FIRST) -> int:
    """The version of the records. NewerSchema names the program that is needed for one that is not known here.

    `known` is the version that they had before, as noted where only this deployment writes: whoever could lower it in
    the records would have what he wrote there upgraded. UntrustedSchema.
    """
    version, program = _read()
    if version > get_known(upgrades):
        raise NewerSchema(
            f"the records are of version {version}, this program knows {get_known(upgrades)}: "
            f"use Mangrove {program} or newer"
        )
    if version < known:
        raise UntrustedSchema(f"the records are of version {version}, but they were of version {known} before")
    return version


def _read() -> tuple[int, str]:
    """The version, and the program it needs; UntrustedSchema."""
    with translate_errors():
        try:
            if Counter.get(KEY, consistent_read=True).value == FIRST:  # it had no MAC then
                return FIRST, FIRST_PROGRAM
        except DoesNotExist:
            return FIRST, FIRST_PROGRAM
        try:
            found = SchemaVersion.get(KEY, consistent_read=True)
        except DoesNotExist:  # it is refused
            reason = "what they say about their version was written with another key or by another program"
            raise UntrustedSchema(reason) from None
    return int(found.value), str(found.program)


def upgrade(version: int, upgrades: Sequence[Upgrade] = UPGRADES) -> None:
    """Lead records of a version to the present one; each step is noted when it is done."""
    for number, step in enumerate(upgrades[version - FIRST :], version + 1):
        step.apply()
        write_version(number, step.program)


def write_version(version: int, program: str) -> None:
    """Note the version of the records, and the oldest program that knows it."""
    with translate_errors():
        SchemaVersion(KEY, value=version, program=program).save()


def note_new(upgrades: Sequence[Upgrade] = UPGRADES) -> None:
    """Note that records which were just begun are of the present version."""
    write_version(get_known(upgrades), upgrades[-1].program if upgrades else FIRST_PROGRAM)
