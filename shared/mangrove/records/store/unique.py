"""Names that only one record of a kind may have, kept by the engine's own conditions."""

from __future__ import annotations

from collections.abc import Collection

from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.exceptions import DoesNotExist
from pynamodb.transactions import TransactWrite

from mangrove.core.problems import BadRequest
from mangrove.records.store.base import Record, TableMeta, table_name, translate_errors

MAX_KEY_BYTES = 2048


class Claim(Record):
    """`name` is `<kind>#<text>`; `owner` the id of the record that has it."""

    class Meta(TableMeta):
        table_name = table_name("names")

    name = UnicodeAttribute(hash_key=True)
    owner = NumberAttribute()


def make_name(kind: str, text: str) -> str:
    """The name of a claim; BadRequest for one too long."""
    name = f"{kind}#{text}"
    if len(name.encode()) > MAX_KEY_BYTES:
        raise BadRequest("the name or path is too long")
    return name


def claim(write: TransactWrite, name: str, owner: int) -> None:
    """Take a name within a transaction, which fails as a whole when it is taken."""
    write.save(Claim(name, owner=owner), condition=Claim.name.does_not_exist())


def release(write: TransactWrite, name: str) -> None:
    """Free a name within a transaction."""
    write.delete(Claim(name))


def find_owner(name: str) -> int | None:
    """The id of the record that has a name; None when nobody has."""
    with translate_errors():
        try:
            return int(Claim.get(name, consistent_read=True).owner)
        except DoesNotExist:
            return None


def find_taken(names: Collection[str], owner: int) -> set[str]:
    """Those of the names that another record than `owner` has."""
    with translate_errors():
        return {claim.name for claim in Claim.batch_get(names, consistent_read=True) if claim.owner != owner}
