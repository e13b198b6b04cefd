"""What lets a user in beside their password: records that belong to one user each, and are found by user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pynamodb.attributes import NumberAttribute
from pynamodb.indexes import GlobalSecondaryIndex, KeysOnlyProjection
from pynamodb.transactions import TransactWrite

from mangrove.records import versions
from mangrove.records.accounts import users
from mangrove.records.store.base import get_connection, translate_errors
from mangrove.records.store.repository import Repository

INDEX = "user"
Value = TypeVar("Value")


class UserIndex(GlobalSecondaryIndex[Any]):  # type: ignore[no-untyped-call]
    """The ids of a user's records."""

    class Meta:
        index_name = INDEX
        projection = KeysOnlyProjection()

    user_id = NumberAttribute(hash_key=True)
    id = NumberAttribute(range_key=True)


class CredentialRepository(Repository[Value]):
    """Records of one kind. One that comes or goes is a change of its user, so that whoever remembers the user follows;
    noting when it was used is none."""

    def find_by_user(self, user_id: int) -> list[Value]:
        """A user's records, by id. One that was made at this moment may not be among them yet; none that is gone is."""
        found: list[Value] = []
        start = None
        while True:
            with translate_errors():
                page = get_connection(self.model).query(
                    self.model.Meta.table_name, str(user_id), index_name=INDEX, attributes_to_get=["id"],
                    exclusive_start_key=start,
                )  # fmt: skip
            ids = [int(item["id"]["N"]) for item in page["Items"]]
            present = self.get_many(ids) if ids else {}
            found += [present[id] for id in ids if id in present]
            start = page.get("LastEvaluatedKey")
            if not start:
                return found

    def _transact(self, record: Any, add: Callable[[TransactWrite], object]) -> None:
        versions.write(self.model, users.KIND, [int(record.user_id)], add)
