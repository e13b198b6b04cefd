"""Per-path rules (metas): the nearest one to a path decides who may read and write there, and what is hidden."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mangrove import configuration
from mangrove.core import runtime
from mangrove.core.paths import TreePath
from mangrove.core.patterns import compile_pattern
from mangrove.identity.rights import Right
from mangrove.records.accounts.users import User
from mangrove.records.metas import Meta

# who has no right that a rule could mean
STRANGER = User(
    id=0, username="", password_hash="", base_path="/", role=0, permission=0, disabled=True, sso_id="",
    allow_ldap=False, otp_secret="", pwd_ts=0,
)  # fmt: skip


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


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the rules say of one path to one user. `rule`: the nearest one, at the path or at the closest folder above,
    which shadows all farther ones; `is_hidden`: it, or a folder on the way to it, is hidden from the user."""

    user: User
    path: TreePath
    rule: Rule | None
    is_hidden: bool = False

    @property
    def hide_rule(self) -> Rule | None:
        """The rule that hides names from the user in the listing of this folder, if there is one."""
        rule = self.rule
        if rule and rule.hides and not self.user.permission & Right.SEE_HIDDEN and self._covers(rule.meta.h_sub):
            return rule
        return None

    def _covers(self, sub: bool) -> bool:
        return self.rule is not None and self.rule.covers(self.path, sub)

    def may_read(self, password: str) -> bool:
        """Behaviour 4.2, in its order: hidden, readers, the bit that skips passwords, the password."""
        if self.is_hidden or not self.is_reader:
            return False
        return self.password in ("", password)

    @property
    def password(self) -> str:
        """The password that the nearest rule asks the user for here, "" for none."""
        rule = self.rule
        if rule is None or self.user.permission & Right.SKIP_PASSWORD or not self._covers(rule.meta.p_sub):
            return ""
        return rule.meta.password

    @property
    def is_reader(self) -> bool:
        """Whether the nearest rule has no list of readers, or one with this user."""
        if self.rule is None or not self.rule.meta.read_users:
            return True
        return self.user.id in self.rule.meta.read_users or not self._covers(self.rule.meta.read_users_sub)

    @property
    def is_reader_below(self) -> bool:
        """The same of a folder right below that has no rule of its own."""
        if self.rule is None or not self.rule.meta.read_users:
            return True
        return self.user.id in self.rule.meta.read_users or not self.rule.meta.read_users_sub

    @property
    def may_write(self) -> bool:
        """Whether the nearest rule has no list of writers, or one with this user."""
        if self.rule is None or not self.rule.meta.write_users:
            return True
        return self.user.id in self.rule.meta.write_users or not self._covers(self.rule.meta.write_users_sub)

    @property
    def is_open_for_writing(self) -> bool:
        """Whether the rule lets every user put new things into this folder."""
        return self.rule is not None and self.rule.meta.write and self._covers(self.rule.meta.w_sub)

    @property
    def texts(self) -> tuple[str, str]:
        """The readme and the header shown here."""
        if self.rule is None:
            return "", ""
        meta = self.rule.meta
        return meta.readme if self._covers(meta.r_sub) else "", meta.header if self._covers(meta.header_sub) else ""


class Rules:
    """The rules of one snapshot."""

    def __init__(self, metas: Mapping[str, Meta]) -> None:
        self._by_path = {TreePath(meta.path): _compile_rule(meta) for meta in metas.values()}
        self._paths = sorted(self._by_path)
        self.has_reader_lists = any(meta.read_users for meta in metas.values())
        self._password_paths = sorted(rule.path for rule in self._by_path.values() if rule.meta.password)
        hides = (pattern.pattern for rule in self._by_path.values() for pattern in rule.hides)
        self.hide_lines: tuple[str, ...] = tuple(dict.fromkeys(hides))  # of all of them, each once

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return not self._by_path

    @property
    def has_passwords(self) -> bool:
        """True if a rule asks for a password."""
        return bool(self._password_paths)

    def has_password_below(self, folder: TreePath) -> bool:
        """True if a rule below a folder asks for a password."""
        prefix = "/" if folder == "/" else f"{folder}/"
        paths = self._password_paths
        index = bisect_left(paths, prefix)
        if index < len(paths) and paths[index] == "/":
            index += 1
        return index < len(paths) and paths[index].startswith(prefix)

    @property
    def paths(self) -> Sequence[TreePath]:
        """Where there is one, in order."""
        return self._paths

    def judge(self, user: User, path: TreePath) -> Judgement:
        """What the rules say of `path`, in one pass over the folders on the way to it."""
        if not self._by_path:
            return Judgement(user, path, None)
        found = Judgement(user, TreePath("/"), self._by_path.get(TreePath("/")))
        for folder in reversed(path.ancestors()[:-1]):
            found = self._judge_next(found, folder)
        return found

    def judge_child(self, folder: Judgement, name: str) -> Judgement:
        """What they say of the entry `name` of a folder that is judged already; `name` is one segment."""
        return self._judge_next(folder, folder.path / name)

    def _judge_next(self, folder: Judgement, path: TreePath) -> Judgement:
        hiding = None if folder.is_hidden else folder.hide_rule
        is_hidden = folder.is_hidden or (hiding is not None and hiding.hides_name(path.name))
        return Judgement(folder.user, path, self._by_path.get(path, folder.rule), is_hidden)

    def find_names_below(self, folder: TreePath) -> set[str]:
        """The names in a folder that have a rule of their own, or one below."""
        return {path.below(folder).split("/", 2)[1] for path in self._find_below(folder)}

    def _find_below(self, folder: TreePath) -> Iterator[TreePath]:
        """The paths of rules below a folder, in order."""
        prefix = "/" if folder == "/" else f"{folder}/"
        for index in range(bisect_left(self._paths, prefix), len(self._paths)):
            path = self._paths[index]
            if not path.startswith(prefix):
                return
            if path != "/":
                yield path

    def is_restricted_below(self, judgement: Judgement, password: str, changes: bool) -> bool:
        """Whether a rule at or below a path keeps something from its user that a copy would disclose.

        With `changes`, also whether one denies them writing, so that the original may not be taken away.
        """
        judged = {judgement.path: judgement}
        own = () if judgement.rule is None or judgement.rule.path != judgement.path else (judgement.path,)
        for path in (*own, *self._find_below(judgement.path)):
            found = self._judge_below(judged, path)
            if not found.may_read(password) or (changes and not found.may_write):
                return True
            if found.rule is not None and found.rule.hides and not found.user.permission & Right.SEE_HIDDEN:
                return True
        return False

    def _judge_below(self, judged: dict[TreePath, Judgement], path: TreePath) -> Judgement:
        """What they say of a path below one in `judged`, which remembers the folders on the way."""
        waiting = []
        while path not in judged:
            waiting.append(path)
            path = path.parent
        for step in reversed(waiting):
            judged[step] = self._judge_next(judged[step.parent], step)
        return judged[waiting[0] if waiting else path]

    def is_guarded(self, path: TreePath) -> bool:
        """Whether a rule locks, hides or reserves `path`, so that links to it must be signed."""
        return not self.judge(STRANGER, path).may_read("")

    def hides_in(self, folder: TreePath) -> bool:
        """Whether a rule hides names in a folder."""
        return self.judge(STRANGER, folder).hide_rule is not None


def _compile_rule(meta: Meta) -> Rule:
    lines = (line for line in meta.hide.splitlines() if line.strip())
    return Rule(meta, TreePath(meta.path), tuple(compile_pattern(line) for line in lines))


class RulesCache:
    """The compiled rules of the last snapshot that was asked for; one with the same rules shares them."""

    def __init__(self) -> None:
        self._metas: Mapping[str, Meta] = {}
        self._rules = Rules({})

    async def get(self, now: configuration.Snapshot) -> Rules:
        if self._metas is not now.metas:
            rules = await asyncio.to_thread(Rules, now.metas)
            self._metas, self._rules = now.metas, rules
            return rules
        return self._rules


async def get_rules(now: configuration.Snapshot) -> Rules:
    """The compiled rules of a snapshot, made once for each, in a thread: there may be thousands."""
    return await runtime.get(RulesCache).get(now)
