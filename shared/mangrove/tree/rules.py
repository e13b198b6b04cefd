"""Per-path rules (metas): the nearest one to a path says who may read and write there, and what is hidden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import re2

from mangrove.identity.rights import Right
from mangrove.paths import TreePath
from mangrove.records.metas import Meta
from mangrove.records.users import User
from mangrove.site import snapshot


@dataclass(frozen=True, slots=True)
class Rule:
    """One meta with its path parsed and its hide lines compiled."""

    meta: Meta
    path: TreePath
    hides: tuple[Any, ...]

    def covers(self, path: TreePath, sub: bool) -> bool:
        """Whether the rule's aspect with the flag `sub` applies at `path` (which lies at or below the rule)."""
        return sub or path == self.path

    def hides_name(self, name: str) -> bool:
        return any(pattern.search(name) for pattern in self.hides)


class Rules:
    """The rules of one snapshot."""

    def __init__(self, metas: Mapping[str, Meta]) -> None:
        self._by_path = {TreePath(meta.path): _compiled(meta) for meta in metas.values()}
        self.any_readers = any(meta.read_users for meta in metas.values())

    def nearest(self, path: TreePath) -> Rule | None:
        """The rule at `path` or at the closest folder above; it shadows all farther ones."""
        if not self._by_path:
            return None
        return next((self._by_path[folder] for folder in path.ancestors() if folder in self._by_path), None)

    def hiding(self, user: User, folder: TreePath) -> Rule | None:
        """The rule that hides names from this user in the listing of `folder`, if there is one."""
        rule = self.nearest(folder)
        if rule and rule.hides and not user.permission & Right.SEE_HIDDEN and rule.covers(folder, rule.meta.h_sub):
            return rule
        return None

    def hidden(self, user: User, path: TreePath) -> bool:
        """Whether `path`, or a folder on the way to it, is hidden from this user."""
        return any(
            (rule := self.hiding(user, step.parent)) is not None and rule.hides_name(step.name)
            for step in path.ancestors()[:-1]
        )

    def may_read(self, user: User, path: TreePath, password: str) -> bool:
        """Behaviour 4.2, in its order: hidden, readers, the bit that skips passwords, the password."""
        if not self._by_path:
            return True
        if self.hidden(user, path) or not self.admits(user, path):
            return False
        rule = self.nearest(path)
        if rule is None or user.permission & Right.SKIP_PASSWORD or not rule.meta.password:
            return True
        return not rule.covers(path, rule.meta.p_sub) or password == rule.meta.password

    def admits(self, user: User, path: TreePath) -> bool:
        """Whether the nearest rule's list of readers, if it has one, names this user."""
        rule = self.nearest(path)
        if rule is None or not rule.meta.read_users:
            return True
        return user.id in rule.meta.read_users or not rule.covers(path, rule.meta.read_users_sub)

    def may_write(self, user: User, folder: TreePath) -> bool:
        """Whether the nearest rule's list of writers, if it has one, names this user."""
        rule = self.nearest(folder)
        if rule is None or not rule.meta.write_users:
            return True
        return user.id in rule.meta.write_users or not rule.covers(folder, rule.meta.write_users_sub)

    def keeps(self, user: User, path: TreePath, password: str, changes: bool) -> bool:
        """Whether a rule at or below `path` keeps something from this user that a copy would bring into the open.

        With `changes`, whether one keeps him from taking it away, too.
        """
        return any(
            rule.path.within(path)
            and (
                not self.may_read(user, rule.path, password)
                or (rule.hides and not user.permission & Right.SEE_HIDDEN)
                or (changes and not self.may_write(user, rule.path))
            )
            for rule in self._by_path.values()
        )

    def opens_writing(self, folder: TreePath) -> bool:
        """Whether the rule lets everybody put new things into `folder`."""
        rule = self.nearest(folder)
        return rule is not None and rule.meta.write and rule.covers(folder, rule.meta.w_sub)

    def wants_signature(self, path: TreePath) -> bool:
        """Whether a password rule covers `path`, so that its download links must be signed."""
        rule = self.nearest(path)
        return rule is not None and bool(rule.meta.password) and rule.covers(path, rule.meta.p_sub)

    def texts(self, path: TreePath) -> tuple[str, str]:
        """The readme and the header shown at `path`."""
        rule = self.nearest(path)
        if rule is None:
            return "", ""
        meta = rule.meta
        return (
            meta.readme if rule.covers(path, meta.r_sub) else "",
            meta.header if rule.covers(path, meta.header_sub) else "",
        )


def _compiled(meta: Meta) -> Rule:
    lines = (line for line in meta.hide.splitlines() if line.strip())
    return Rule(meta, TreePath(meta.path), tuple(re2.compile(line) for line in lines))


_of: tuple[snapshot.Snapshot | None, Rules] = (None, Rules({}))


def of(now: snapshot.Snapshot) -> Rules:
    """The compiled rules of a snapshot, made once for each."""
    global _of
    if _of[0] is not now:
        _of = (now, Rules(now.metas))
    return _of[1]
