"""Names that only one record of a kind may have, kept by the engine's own conditions."""

from __future__ import annotations

from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.transactions import TransactWrite

from mangrove.problems import BadRequest
from mangrove.records.base import Record, TableMeta, table_name

MAX_KEY_BYTES = 2048


class Claim(Record):
    """`name` is `<kind>#<text>`; `owner` the id of the record that has it."""

    class Meta(TableMeta):
        table_name = table_name("names")

    name = UnicodeAttribute(hash_key=True)
    owner = NumberAttribute()


def claim(write: TransactWrite, kind: str, text: str, owner: int) -> None:
    """Take a name within a transaction, which fails as a whole when it is taken; BadRequest for one too long."""
    name = f"{kind}#{text}"
    if len(name.encode()) > MAX_KEY_BYTES:
        raise BadRequest("the name or path is too long")
    write.save(Claim(name, owner=owner), condition=Claim.name.does_not_exist())


def release(write: TransactWrite, kind: str, text: str) -> None:
    """Free a name within a transaction."""
    write.delete(Claim(f"{kind}#{text}"))
