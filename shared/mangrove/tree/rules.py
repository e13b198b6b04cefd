"""Rules for paths (metas). The nearest rule decides who may read and write, and which names are hidden."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mangrove import configuration
from mangrove.core.paths import TreePath
from mangrove.core.patterns import compile_pattern
from mangrove.core.runtime import CacheKind
from mangrove.identity.rights import Caller, Right
from mangrove.records.metas import PathRule
from mangrove.records.users import User

COMPILED_RULES: CacheKind[str, Rules] = CacheKind("compiled rules", 1)
# a caller without any right that rules consider
STRANGER = Caller(User(id=0, username="", password_hash="", disabled=True, allow_ldap=False))


@dataclass(frozen=True, slots=True)
class Rule:
    """One meta with its path parsed and its hide lines compiled."""

    meta: PathRule
    path: TreePath
    hides: tuple[Any, ...]

    def hides_name(self, name: str) -> bool:
        """True if one of the hide lines matches."""
        return any(pattern.search(name) for pattern in self.hides)


@dataclass(frozen=True, slots=True)
class RuleDecision:
    """The decision of the rules about one path for one caller."""

    caller: Caller
    path: TreePath
    rule: Rule | None  # at the path or the nearest parent; it replaces all rules further up
    is_hidden: bool = False  # the path, or a parent, is hidden from the user

    @property
    def hide_rule(self) -> Rule | None:
        """The rule that hides names from the user in the listing of this folder, None if there is none."""
        rule = self.rule
        if rule and rule.hides and not self.caller.has(Right.SEE_HIDDEN, self.path) and self._covers(rule.meta.h_sub):
            return rule
        return None

    def _covers(self, sub: bool) -> bool:
        """True if the rule applies to the path in an aspect whose flag for subfolders is `sub`."""
        return self.rule is not None and (sub or self.path == self.rule.path)

    def may_read(self, password: str) -> bool:
        """True if the user may read: the path is not hidden, they are among the readers, and the password is right or
        not required.
        """
        if self.is_hidden or not self.is_reader:
            return False
        return self.password in ("", password)

    @property
    def password(self) -> str:
        """The password that the user needs here, "" for none."""
        rule = self.rule
        if rule is None or self.caller.has(Right.SKIP_PASSWORD, self.path) or not self._covers(rule.meta.p_sub):
            return ""
        return rule.meta.password

    @property
    def is_reader(self) -> bool:
        """True if the rule has no list of readers, or one with this user."""
        return self.rule is None or self._reads(self.rule.meta) or not self._covers(self.rule.meta.read_users_sub)

    @property
    def is_reader_below(self) -> bool:
        """True if the user is a reader of a folder right below that has no rule of its own."""
        return self.rule is None or self._reads(self.rule.meta) or not self.rule.meta.read_users_sub

    def _reads(self, meta: PathRule) -> bool:
        return not has_reader_list(meta) or self.caller.is_named(meta.read_users, meta.read_groups)

    @property
    def may_write(self) -> bool:
        """True if the rule has no list of writers, or one with this user."""
        if self.rule is None:
            return True
        meta = self.rule.meta
        if not meta.write_users and not meta.write_groups:
            return True
        return self.caller.is_named(meta.write_users, meta.write_groups) or not self._covers(meta.write_users_sub)

    @property
    def is_open_for_writing(self) -> bool:
        """True if the rule allows every user to create entries in this folder."""
        return self.rule is not None and self.rule.meta.write and self._covers(self.rule.meta.w_sub)

    @property
    def texts(self) -> tuple[str, str]:
        """Return the readme and the header shown here."""
        if self.rule is None:
            return "", ""
        meta = self.rule.meta
        return meta.readme if self._covers(meta.r_sub) else "", meta.header if self._covers(meta.header_sub) else ""


def has_reader_list(meta: PathRule) -> bool:
    """True if a rule names its readers."""
    return bool(meta.read_users or meta.read_groups)


def _protects(meta: PathRule) -> bool:
    """True if a rule forbids anything to anybody."""
    is_hiding = any(line.strip() for line in meta.hide.splitlines())
    return bool(meta.password or is_hiding or has_reader_list(meta) or meta.write_users or meta.write_groups)


class Rules:
    """The rules of one snapshot."""

    def __init__(self, metas: Mapping[str, PathRule]) -> None:
        self.metas = metas
        self._by_path = {TreePath(meta.path): _compile_rule(meta) for meta in metas.values()}
        self.paths: Sequence[TreePath] = sorted(self._by_path)
        self.is_empty = not self._by_path
        self.has_reader_lists = any(map(has_reader_list, metas.values()))
        self._password_paths = sorted(rule.path for rule in self._by_path.values() if rule.meta.password)
        self.has_passwords = bool(self._password_paths)
        self._protected_paths = sorted(rule.path for rule in self._by_path.values() if _protects(rule.meta))
        self.has_protected_paths = bool(self._protected_paths)
        hides = (pattern.pattern for rule in self._by_path.values() for pattern in rule.hides)
        self.hide_lines: tuple[str, ...] = tuple(dict.fromkeys(hides))  # of all rules, without duplicates

    def has_password_below(self, folder: TreePath) -> bool:
        """True if a rule below a folder has a password."""
        return next(_iterate_below(self._password_paths, folder), None) is not None

    def protects(self, path: TreePath) -> bool:
        """True if the rule for a path, and not for a parent, forbids anything to anybody."""
        return path in self._by_path and _protects(self._by_path[path].meta)

    def iterate_protected_paths(self, path: TreePath) -> Iterator[TreePath]:
        """Yield the paths, from `path` downwards, whose rules forbid anything to anybody."""
        if self.protects(path):
            yield path
        yield from _iterate_below(self._protected_paths, path)

    def protects_below(self, path: TreePath, folder: TreePath) -> bool:
        """True if the rule at `path` forbids at `folder`, below it, everything that it forbids at its own path."""
        rule = self.evaluate(STRANGER, folder).rule
        if rule is None or rule.path != path or not _protects(rule.meta):
            return False
        meta = rule.meta
        return (
            (meta.p_sub or not meta.password)
            and (meta.h_sub or not rule.hides)
            and (meta.read_users_sub or not has_reader_list(meta))
            and (meta.write_users_sub or not (meta.write_users or meta.write_groups))
        )

    def evaluate(self, caller: Caller, path: TreePath) -> RuleDecision:
        """Return the decision about a path, in one pass over its parents."""
        if not self._by_path:
            return RuleDecision(caller, path, None)
        decision = RuleDecision(caller, TreePath("/"), self._by_path.get(TreePath("/")))
        for folder in reversed(path.ancestors()[:-1]):
            decision = self._evaluate_next(decision, folder)
        return decision

    def evaluate_child(self, folder: RuleDecision, name: str) -> RuleDecision:
        """Return the decision about the entry `name` of a folder; `name` is one segment."""
        return self._evaluate_next(folder, folder.path / name)

    def _evaluate_next(self, folder: RuleDecision, path: TreePath) -> RuleDecision:
        hide_rule = None if folder.is_hidden else folder.hide_rule
        is_hidden = folder.is_hidden or (hide_rule is not None and hide_rule.hides_name(path.name))
        return RuleDecision(folder.caller, path, self._by_path.get(path, folder.rule), is_hidden)

    def find_names_below(self, folder: TreePath) -> set[str]:
        """Return the names in a folder that have a rule at or below them."""
        return {path.below(folder).split("/", 2)[1] for path in _iterate_below(self.paths, folder)}

    def is_restricted_below(self, decision: RuleDecision, password: str, changes: bool) -> bool:
        """True if a rule at or below a path hides anything from its user that a copy would disclose.

        With `changes` also if a rule denies writing, so that the original must not be taken away.
        """
        decisions = {decision.path: decision}
        own = () if decision.rule is None or decision.rule.path != decision.path else (decision.path,)
        for path in (*own, *_iterate_below(self.paths, decision.path)):
            below = self._evaluate_below(decisions, path)
            if not below.may_read(password) or (changes and not below.may_write):
                return True
            if below.rule is not None and below.rule.hides and not below.caller.has(Right.SEE_HIDDEN, below.path):
                return True
        return False

    def _evaluate_below(self, decisions: dict[TreePath, RuleDecision], path: TreePath) -> RuleDecision:
        """Return the decision about a path below one in `decisions`, which caches the folders between."""
        steps = []
        while path not in decisions:
            steps.append(path)
            path = path.parent
        for step in reversed(steps):
            decisions[step] = self._evaluate_next(decisions[step.parent], step)
        return decisions[steps[0] if steps else path]

    def is_guarded(self, path: TreePath) -> bool:
        """True if a rule locks, hides or reserves `path`, so that links to it must be signed."""
        return not self.evaluate(STRANGER, path).may_read("")

    def hides_in(self, folder: TreePath) -> bool:
        """True if a rule hides names in a folder."""
        return self.evaluate(STRANGER, folder).hide_rule is not None


def _iterate_below(paths: Sequence[TreePath], folder: TreePath) -> Iterator[TreePath]:
    """Yield the paths below a folder, from sorted paths."""
    prefix = "/" if folder == "/" else f"{folder}/"
    for index in range(bisect_left(paths, prefix), len(paths)):
        path = paths[index]
        if not path.startswith(prefix):
            return
        if path != "/":
            yield path


def _compile_rule(meta: PathRule) -> Rule:
    lines = (line for line in meta.hide.splitlines() if line.strip())
    return Rule(meta, TreePath(meta.path), tuple(compile_pattern(line) for line in lines))


async def get_rules(now: configuration.Snapshot) -> Rules:
    """Return the compiled rules of a snapshot. A snapshot with the same rules as the last one shares them.

    They are made in a thread, since there may be thousands.
    """
    cache = COMPILED_RULES.open()
    last = cache.get("last")
    if last is not None and last.metas is now.metas:
        return last
    rules = await asyncio.to_thread(Rules, now.metas)
    cache.put("last", rules)
    return rules
