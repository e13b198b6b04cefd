"""Per-path rules (metas): the nearest one to a path decides who may read and write there, and what is hidden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mangrove import runtime
from mangrove.identity.rights import Right
from mangrove.paths import TreePath
from mangrove.patterns import compile_pattern
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
        """Whether one of the hide lines matches."""
        return any(pattern.search(name) for pattern in self.hides)


class Rules:
    """The rules of one snapshot."""

    def __init__(self, metas: Mapping[str, Meta]) -> None:
        self._by_path = {TreePath(meta.path): _compile_rule(meta) for meta in metas.values()}
        self.has_reader_lists = any(meta.read_users for meta in metas.values())

    def find_nearest(self, path: TreePath) -> Rule | None:
        """The rule at `path` or at the closest folder above; it shadows all farther ones."""
        if not self._by_path:
            return None
        return next((self._by_path[folder] for folder in path.ancestors() if folder in self._by_path), None)

    def find_hide_rule(self, user: User, folder: TreePath) -> Rule | None:
        """The rule that hides names from this user in the listing of `folder`, if there is one."""
        rule = self.find_nearest(folder)
        if rule and rule.hides and not user.permission & Right.SEE_HIDDEN and rule.covers(folder, rule.meta.h_sub):
            return rule
        return None

    def is_hidden(self, user: User, path: TreePath) -> bool:
        """Whether `path`, or a folder on the way to it, is hidden from this user."""
        return any(
            (rule := self.find_hide_rule(user, step.parent)) is not None and rule.hides_name(step.name)
            for step in path.ancestors()[:-1]
        )

    def may_read(self, user: User, path: TreePath, password: str) -> bool:
        """Behaviour 4.2, in its order: hidden, readers, the bit that skips passwords, the password."""
        if not self._by_path:
            return True
        if self.is_hidden(user, path) or not self.is_reader(user, path):
            return False
        rule = self.find_nearest(path)
        if rule is None or user.permission & Right.SKIP_PASSWORD or not rule.meta.password:
            return True
        return not rule.covers(path, rule.meta.p_sub) or password == rule.meta.password

    def is_reader(self, user: User, path: TreePath) -> bool:
        """Whether the nearest rule has no list of readers, or one with this user."""
        rule = self.find_nearest(path)
        if rule is None or not rule.meta.read_users:
            return True
        return user.id in rule.meta.read_users or not rule.covers(path, rule.meta.read_users_sub)

    def may_write(self, user: User, folder: TreePath) -> bool:
        """Whether the nearest rule has no list of writers, or one with this user."""
        rule = self.find_nearest(folder)
        if rule is None or not rule.meta.write_users:
            return True
        return user.id in rule.meta.write_users or not rule.covers(folder, rule.meta.write_users_sub)

    def is_restricted_below(self, user: User, path: TreePath, password: str, changes: bool) -> bool:
        """Whether a rule at or below `path` keeps something from this user that a copy would disclose.

        With `changes`, also whether one denies them writing, so that the original may not be taken away.
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

    def is_open_for_writing(self, folder: TreePath) -> bool:
        """Whether the rule lets every user put new things into `folder`."""
        rule = self.find_nearest(folder)
        return rule is not None and rule.meta.write and rule.covers(folder, rule.meta.w_sub)

    def has_password(self, path: TreePath) -> bool:
        """Whether a password rule covers `path`, so that its download links must be signed."""
        rule = self.find_nearest(path)
        return rule is not None and bool(rule.meta.password) and rule.covers(path, rule.meta.p_sub)

    def get_texts(self, path: TreePath) -> tuple[str, str]:
        """The readme and the header shown at `path`."""
        rule = self.find_nearest(path)
        if rule is None:
            return "", ""
        meta = rule.meta
        return (
            meta.readme if rule.covers(path, meta.r_sub) else "",
            meta.header if rule.covers(path, meta.header_sub) else "",
        )


def _compile_rule(meta: Meta) -> Rule:
    lines = (line for line in meta.hide.splitlines() if line.strip())
    return Rule(meta, TreePath(meta.path), tuple(compile_pattern(line) for line in lines))


class RulesCache:
    """The compiled rules of the last snapshot that was asked for."""

    def __init__(self) -> None:
        self._snapshot: snapshot.Snapshot | None = None
        self._rules = Rules({})

    def get(self, now: snapshot.Snapshot) -> Rules:
        if self._snapshot is not now:
            self._snapshot, self._rules = now, Rules(now.metas)
        return self._rules


def get_rules(now: snapshot.Snapshot) -> Rules:
    """The compiled rules of a snapshot, made once for each."""
    return runtime.get(RulesCache).get(now)
