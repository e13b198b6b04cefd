"""State has an owner: what changes while a process lives is in a slot of `mangrove.core.runtime`, and nowhere else."""

from __future__ import annotations

import ast
import queue
import re
import threading
import types
import weakref
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from enum import EnumType
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

SLOTS = {
    "mangrove.core.platform.CurrentPlatform": "the platform, and what dispatches tasks on it",
    "mangrove.core.telemetry.AccessLog": "lines about requests that wait to be written",
    "mangrove.core.aws.AwsSession": "the session that makes the clients of AWS's services",
    "mangrove.core.config.Config": "what the environment says",
    "mangrove.protocols.webdav.proofs.Proofs": "who was found right by a slow hash of their password a short while ago",
    "mangrove.drivers.local.thumbnails.Decoders": "the processes that decode pictures",
    "mangrove.drivers.s3.clients.Clients": "clients of S3 servers, as long as a storage uses them",
    "mangrove.core.shared_memory.SharedMemory": "numbers of all processes: changes, limits, when each was last at what",
    "mangrove.core.limits.Limits": "how much of each thing is in use, in all and by caller; locks by key",
    "mangrove.core.concurrency.ComputePools": "the threads for computing",
    "mangrove.identity.passwords.Hasher": "how many passwords are hashed at once; the hash that stands for no account",
    "mangrove.identity.tokens.VerifiedTokens": "tokens with a right signature, and when each was last looked up",
    "mangrove.net.client.TlsContext": "the certificates that outgoing connections trust",
    "mangrove.net.proxy.GuardedProxy": "the proxy through which aria2 reaches other servers",
    "mangrove.records.store.base.Connections": "the connection to the records engine, and the count of calls",
    "mangrove.records.store.crypto.Keyring": "the master key and the keys derived from it",
    "mangrove.records.store.integrity.Refusals": "the records that are refused, each named in the log once",
    "mangrove.records.tasks.marks.TaskMarks": "how many rows of a list of tasks there are up to some of them",
    "mangrove.search.database.Database": "DuckDB, its threads, and the tables laid over the index",
    "mangrove.search.tables.IndexTables": "what the tables of the search database have, and up to which change",
    "mangrove.search.segments.SegmentStore": "where the indexes lie, and which of them were opened",
    "mangrove.configuration.health.Health": "the checks of the health, and when each was last made",
    "mangrove.configuration.snapshot.SnapshotStore": "the configuration in memory",
    "mangrove.configuration.users.KnownUsers": "users whom requests looked up last, and their keys",
    "mangrove.configuration.throttle.Throttles": "the limits of speed, and which bytes wait for their time",
    "mangrove.tasks.core.leases.HeldTasks": "the tasks that workers of this process hold, and keep for the next slice",
    "mangrove.tasks.core.staging.Staging": "the storage of bytes in waiting",
    "mangrove.tasks.core.worker_loop.WorkerLoop": "the event loop that workers share with the drivers",
    "mangrove.tasks.upload.multipart.ChunksInFlight": "the chunks of uploads that are being stored",
    "mangrove.tree.operations.change_log.Journal": "the intents of this process, and changes not in the log yet",
    "mangrove.tree.listing.listing.Listings": "folders as they were listed, bounded in bytes",
    "mangrove.tree.mounts.Mounts": "the mount table and the drivers that run",
    "mangrove.tree.rules.RulesCache": "the compiled rules of the present snapshot",
    "mangrove.web.page.FrontEnd": "the page that people are shown, if any",
}
"""Every slot, and what it holds."""

CACHES = {
    "mangrove.archives.zipcrypt._make_keystream": "a table of the cipher",
    "mangrove.standalone.template.load_template": "the template, which is part of the code",
    "mangrove.core.codec.find_hints": "the fields of a class",
}
"""Functions that may remember what they return, and why: it depends on the code alone."""

STATELESS = {
    "mangrove.records.accounts.credentials.CredentialRepository": "the names of a table",
    "mangrove.records.store.repository.ConfigurationRepository": "the names of a table",
    "mangrove.records.store.repository.Repository": "the names of a table",
    "mangrove.records.accounts.users.UserRepository": "the names of a table",
    "mangrove.web.api.Api": "the routes of an application; complete after the import",
    "mangrove.web.front.Front": "the routes of an application; complete after the import",
    "mangrove.web.plain.PlainApi": "the routes of an application; complete after the import",
}
"""Classes of which a module may keep an object, and what that is."""

OWNER = "mangrove.core.runtime"  # the one module that keeps the runtime itself
FOREIGN = {
    ("tests/support/interpreters.py", "_wait_interval"),
    ("tests/crash/test_repeats.py", "_handle_range_header"),
}
"""Private names of moto that a test has to replace."""

CONTAINERS = (list, dict, set, bytearray, deque)
CHANGING = (
    weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet, type(threading.Lock()),
    type(threading.RLock()), threading.Semaphore, threading.Condition, threading.Event, threading.local, Executor,
    queue.Queue, queue.SimpleQueue, Iterator,
)  # fmt: skip
PATCHING = re.compile(r"\b(setattr|delattr|patch|patch\.object)$")
PATCHING_WORDS = {"setattr", "delattr", "patch", "object"}  # what such a call ends in
MUTATORS = {
    "append", "extend", "insert", "remove", "pop", "popitem", "clear", "add", "discard", "update", "setdefault",
    "sort", "reverse", "appendleft", "popleft",
}  # fmt: skip


@dataclass(frozen=True)
class Source:
    """A file, with the name of its module."""

    path: str
    module: str
    tree: ast.Module

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All of the tree, walked once."""
        return list(ast.walk(self.tree))

    def at(self, node: ast.AST, what: str) -> str:
        """One violation, as a line of text."""
        return f"{self.path}:{getattr(node, 'lineno', 0)}: {what}"

    def resolve(self, name: str) -> str:
        """The whole name of what `name` means in this module."""
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return f"{node.module}.{alias.name}"
        return f"{self.module}.{name}"

    def modules(self) -> set[str]:
        """The names under which this file imports modules of ours."""
        found: set[str] = set()
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom):
                modules = [alias for alias in node.names if is_module(f"{node.module}.{alias.name}")]
                found |= {alias.asname or alias.name for alias in modules}
        return found


@cache
def is_module(name: str) -> bool:
    """Whether `mangrove` has a module of this name."""
    path = ROOT / "shared" / Path(*name.split("."))
    return name.startswith("mangrove") and (path.is_dir() or path.with_suffix(".py").is_file())


def read(folder: str, base: str = "") -> list[Source]:
    """The files below a folder; their modules are named as seen from `base`."""
    found = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        module = ".".join(path.relative_to(ROOT / base).with_suffix("").parts).removesuffix(".__init__")
        found.append(Source(str(path.relative_to(ROOT)), module, ast.parse(path.read_text())))
    return found


@cache
def code() -> list[Source]:
    """All of `mangrove` and `functions`."""
    return read("shared/mangrove", "shared") + read("functions")


def targets(node: ast.AST) -> Iterator[ast.expr]:
    """What a statement assigns to or deletes."""
    if isinstance(node, ast.Assign | ast.Delete):
        found = list(node.targets)
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        found = [node.target]
    else:
        found = []
    for target in found:
        yield from target.elts if isinstance(target, ast.Tuple | ast.List) else [target]


def assigned(tree: ast.Module) -> dict[str, ast.AST]:
    """The names that a module binds when it is imported, but for imports, functions and classes."""
    found: dict[str, ast.AST] = {}
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for target in targets(node):
            if isinstance(target, ast.Name):
                found[target.id] = node
        waiting += ast.iter_child_nodes(node)
    return found


def last_word(node: ast.expr) -> str:
    """The name of a function or method, without what stands before it; "" for none."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def is_one_of(node: ast.expr, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def whole_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def is_constant(value: Any) -> bool:
    """Whether an object of ours cannot change: a class, an enumeration, a frozen dataclass, a tuple or a str."""
    kind = type(value)
    parameters = getattr(kind, "__dataclass_params__", None)
    return (
        isinstance(value, type | tuple | str | int | types.FunctionType)
        or isinstance(kind, EnumType)
        or (parameters is not None and parameters.frozen)
    )


@cache
def mutations() -> set[str]:
    """The names of which something in the code sets or deletes an item, or calls a method that changes it."""
    found: set[str] = set()

    def note(owner: ast.expr) -> None:
        if isinstance(owner, ast.Name | ast.Attribute):
            found.add(owner.id if isinstance(owner, ast.Name) else owner.attr)

    for source in code():
        for node in source.nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
                note(node.func.value)
            for target in targets(node):
                if isinstance(target, ast.Subscript):
                    note(target.value)
                elif isinstance(node, ast.AugAssign):
                    note(target)
    return found


def complaint(name: str, value: Any) -> str:
    """What is wrong with a module that keeps `value` under `name`; "" for nothing."""
    kind = type(value)
    if isinstance(value, CHANGING) or kind.__module__.startswith("asyncio."):
        return f"{name} is a {kind.__qualname__}"
    if isinstance(value, CONTAINERS):
        if name != name.upper():
            return f"{name} is a {kind.__qualname__} and not named as a constant"
        return f"{name} is a constant that is changed somewhere" if name in mutations() else ""
    if kind.__module__.partition(".")[0] in ("mangrove", "functions") and not is_constant(value):
        return "" if whole_name(kind) in STATELESS else f"{name} is an object of {whole_name(kind)}"
    return ""


def report(violations: list[str]) -> None:
    """Fail with one line for each violation."""
    assert not violations, "\n".join(["", *violations])


def test_no_module_has_a_global_statement() -> None:
    found = []
    for source in code():
        for node in source.nodes:
            if isinstance(node, ast.Global):
                found.append(source.at(node, f"global {', '.join(node.names)}"))
    report(found)


def test_no_module_keeps_what_changes() -> None:
    found = []
    for source in code():
        if source.module == OWNER:
            continue
        module = import_module(source.module)
        for name, node in assigned(source.tree).items():
            if not name.startswith("__") and (text := complaint(name, getattr(module, name, None))):
                found.append(source.at(node, text))
    report(found)


def test_no_module_sets_a_name_of_another_one() -> None:
    found = []
    for source in code():
        modules = source.modules()
        for node in source.nodes:
            for target in targets(node):
                if isinstance(target, ast.Attribute) and is_one_of(target.value, modules):
                    found.append(source.at(node, f"{ast.unparse(target)} is set"))
    report(found)


def test_only_what_depends_on_the_code_alone_is_cached() -> None:
    found = {}
    for source in code():
        for node in source.nodes:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for decorator in node.decorator_list:
                if ast.unparse(decorator).split("(")[0].split(".")[-1] in ("cache", "lru_cache"):
                    found[f"{source.module}.{node.name}"] = source.at(node, f"{node.name} is cached")
    report([text for name, text in found.items() if name not in CACHES])
    assert CACHES.keys() <= found.keys(), "a function that is no longer cached is still in the list"


def test_the_list_of_slots_is_complete() -> None:
    found: dict[str, str] = {}
    for source in code():
        for node in source.nodes:
            if not isinstance(node, ast.Call) or last_word(node.func) not in ("get", "put"):
                continue
            if ast.unparse(node.func) in ("runtime.get", "runtime.put"):
                kind = node.args[0]
                name = source.resolve(kind.id) if isinstance(kind, ast.Name) else ast.unparse(kind)
                found.setdefault(name, source.at(node, name))
    report([text for name, text in found.items() if name not in SLOTS])
    assert SLOTS.keys() <= found.keys(), "a slot that nothing asks for is still in the list"


def replaced_names(source: Source) -> Iterator[tuple[ast.AST, str]]:
    """The names that a test replaces: by setattr or patch, or by an assignment to a name of a module."""
    modules = source.modules()
    for node in source.nodes:
        if (
            isinstance(node, ast.Call)
            and last_word(node.func) in PATCHING_WORDS
            and PATCHING.search(ast.unparse(node.func))
        ):
            for argument in node.args[:2]:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield node, argument.value.rpartition(".")[2]
        for target in targets(node):
            if isinstance(target, ast.Attribute) and is_one_of(target.value, modules):
                yield node, target.attr


def test_no_test_replaces_a_private_name() -> None:
    found = [
        source.at(node, f"{name} is replaced")
        for source in read("tests")
        for node, name in replaced_names(source)
        if name.startswith("_") and (source.path, name) not in FOREIGN
    ]
    report(found)
