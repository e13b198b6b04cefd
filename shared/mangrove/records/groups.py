"""Groups of users, with permissions for the whole tree and for folders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mangrove.core.paths import TreePath
from mangrove.records.store.base import TableMeta, Versioned, retry_on_conflict, table_name
from mangrove.records.store.repository import ConfigurationRepository


@dataclass(frozen=True, slots=True)
class Group:
    """A group of users."""

    id: int
    name: str
    members: list[int]
    """The ids of users."""
    permission: int
    """Bits, see `identity.rights`."""
    folders: list[list[str | int]]
    """Pairs of a path of the tree and the bits of the permission at and below it."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupPermissions:
    """The permissions that a user has through groups."""

    group_ids: frozenset[int]
    permission: int
    """Bits for the whole tree."""
    folders: Mapping[TreePath, int] = field(repr=False)
    """Bits at and below each folder."""

    def find(self, path: TreePath | None) -> int:
        """Return the bits at a path; those for the whole tree if it is None."""
        permission = self.permission
        if path is not None and self.folders:
            for folder in path.ancestors():
                permission |= self.folders.get(folder, 0)
        return permission


class GroupRecord(Versioned):
    class Meta(TableMeta):
        table_name = table_name("groups")
        value = Group


TAKEN = "the name of the group is taken"
KIND = "groups"
_repository = ConfigurationRepository(KIND, GroupRecord, Group, "name", TAKEN)
all, get, get_many = _repository.all, _repository.get, _repository.get_many
create, change, delete = _repository.create, _repository.change, _repository.delete


@retry_on_conflict
def set_member(id: int, user_id: int, is_member: bool) -> None:
    """Add a user to a group, or remove the user from it. Raise RecordNotFound."""
    record = _repository.get_record(id)
    if (user_id in record.members) != is_member:
        others = [member for member in record.members if member != user_id]
        record.members = [*others, user_id] if is_member else others
        _repository.save(record)


def combine(groups: Iterable[Group]) -> dict[int, GroupPermissions]:
    """Return the permissions of each member of any group, by the id of the user."""
    by_member: dict[int, list[Group]] = defaultdict(list)
    for group in groups:
        for member in group.members:
            by_member[member].append(group)
    known: dict[tuple[int, ...], GroupPermissions] = {}  # members of the same groups share one object
    result = {}
    for member, own in by_member.items():
        key = tuple(group.id for group in own)
        if key not in known:
            known[key] = _combine(own)
        result[member] = known[key]
    return result


def _combine(groups: Sequence[Group]) -> GroupPermissions:
    permission = 0
    folders: dict[TreePath, int] = {}
    for group in groups:
        permission |= group.permission
        for path, bits in group.folders:
            folder = TreePath(str(path))
            folders[folder] = folders.get(folder, 0) | int(bits)
    return GroupPermissions(frozenset(group.id for group in groups), permission, folders)
