"""Work for the crash suite: what is asked for, and what must have become of it at every instant and at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from urllib.parse import quote

from tests.crash import trees
from tests.crash.backends import Model, Side, fact
from tests.crash.trees import ODD, Tree
from tests.support import origin
from tests.support.origin import Origin
from tests.support.service import Client

FOLLOWING = {"offline_download": "offline_download_transfer", "decompress": "decompress_upload"}
KINDS = (
    "upload",
    "copy",
    "move",
    "compress",
    *FOLLOWING,
    *FOLLOWING.values(),
)  # a task comes before the one that it chains
REQUESTED_KINDS = ("copy", "copy", "move", "move", "upload", "offline_download", "decompress")
SMALL_FILES = {"files": 120, "second": 120, "memory": 120, "bucket": 25}  # by the side they come from
# names that a server may give
SERVER_FILE_NAMES = (
    "plain.bin",
    "a b",
    "日本語",
    "🎁 gift",
    "semi;colon,comma",
    "x.tar.gz",
)


class Broken(AssertionError):
    """A condition that must hold does not."""


@dataclass(slots=True)
class Job:
    """One task, and the transfer that it chains. `source` is None for what is sent or fetched: that is `body`.

    `name`: of what is transferred, in `source_dir` or at the server; `arrives`: of what is in `target_dir` at the end,
    "" for the folder itself. `model` is what that must be, `held` what the source holds before. `more`: what is asked
    for besides; `is_rename`: the move is asked for as a rename.
    """

    kind: str
    source: Side | None
    target: Side
    source_dir: str
    target_dir: str
    name: str
    arrives: str
    model: Model
    held: Model = field(default_factory=dict)
    body: bytes = b""
    more: dict[str, Any] = field(default_factory=dict)
    is_rename: bool = False

    def __str__(self) -> str:
        origin = f"{self.source.mount}/{self.source_dir}" if self.source else "(given)"
        return f"{self.kind} {origin}/{self.name} -> {self.target.mount}/{self.target_dir} {self.more or ''}"

    @property
    def kinds(self) -> tuple[str, ...]:
        return (self.kind, FOLLOWING[self.kind]) if self.kind in FOLLOWING else (self.kind,)

    def here(self) -> Model:
        """Return the part of it that the source holds."""
        return self.source.tree(f"{self.source_dir}/{self.name}") if self.source else {}

    def there(self) -> Model:
        """Return the part of it that the target holds."""
        return self.target.tree(f"{self.target_dir}/{self.arrives}".rstrip("/") if self.arrives else self.target_dir)

    def begin(self, client: Client, web: Origin) -> None:
        """Ask for it; Broken when that is refused."""
        answer = self._ask(client, web, f"{self.target.mount}/{self.target_dir}")
        if answer["code"] != 200:
            raise Broken(f"{self}: {answer}")

    def _ask(self, client: Client, web: Origin, target: str) -> dict[str, Any]:
        if self.kind == "upload":
            return client.put(f"{target}/{self.name}", self.body, as_task="true")
        if self.kind == "offline_download":
            fields = {"tool": "SimpleHttp", "delete_policy": "delete_on_upload_succeed"} | self.more
            disposition = f"attachment; filename*=UTF-8''{quote(self.name, safe='')}"
            page = origin.file(self.body, ranges=fields.pop("ranges", True), content_disposition=disposition)
            url = web.at(f"/{self.target_dir}", page)
            return client.post("/api/fs/add_offline_download", path=target, urls=[url], **fields)
        assert self.source is not None
        if self.is_rename:
            return client.post("/api/fs/rename", path=f"{target}/{self.name}", name=self.arrives)
        ends = {"src_dir": f"{self.source.mount}/{self.source_dir}", "dst_dir": target}
        if self.kind == "decompress":
            return client.post("/api/fs/archive/decompress", **ends, name=[self.name], **self.more)
        return client.post(f"/api/fs/{self.kind}", **ends, names=[self.name])

    def check_nothing_lost(self) -> None:
        """Check the conditions that hold at every instant."""
        here, there = self.here(), self.there()
        for name, expected_fact in self.model.items():
            if there.get(name, expected_fact) != expected_fact:
                raise Broken(f"{self}: {name} is half-visible at the target: {there[name]} instead of {expected_fact}")
        for name, expected_fact in self.held.items():
            if here.get(name, expected_fact) != expected_fact:
                raise Broken(f"{self}: {name} at the source became {here[name]} instead of {expected_fact}")
            if name not in here and (self.kind != "move" or name not in there):
                raise Broken(f"{self}: {name} is gone from the source, and is not at the target")

    def check_done(self) -> None:
        """Check the conditions that hold at the end."""
        target_tree = self.target.tree(self.target_dir)
        expected = {f"{self.arrives}/{path}".strip("/"): fact_of_file for path, fact_of_file in self.model.items()} | {
            "": None
        }
        if target_tree != expected:
            raise Broken(f"{self}: {differences(expected, target_tree)}")
        left = {} if self.kind == "move" else self.held
        if (target_tree := self.here()) != left:
            raise Broken(f"{self}: the source holds {differences(left, target_tree)}")


def differences(expected: Model, present: Model) -> str:
    lost = [path for path in expected if path not in present]
    extra = [path for path in present if path not in expected]
    other = [path for path in expected if path in present and expected[path] != present[path]]
    return f"lost {lost}, extra {extra}, different {other}"


def make_model(tree: Tree) -> Model:
    return {path: None if body is None else fact(body) for path, body in tree.items()}


def make_incoming(kind: str, target: Side, label: str, name: str, body: bytes, **more: Any) -> Job:
    """An upload or a download."""
    target.put(f"to-{label}", None)
    return Job(kind, None, target, "", f"to-{label}", name, name, {"": fact(body)}, body=body, more=more)


def make_transfer(kind: str, source: Side, target: Side, label: str, name: str, tree: Tree) -> Job:
    """A copy or a move; `tree` is put into the source."""
    target.put(f"to-{label}", None)
    for path, body in tree.items():
        source.put(f"from-{label}/{name}/{path}" if path else f"from-{label}/{name}", body)
    model = make_model(tree)
    return Job(kind, source, target, f"from-{label}", f"to-{label}", name, name, model, held=model)


def make_rename(side: Side, label: str, name: str, tree: Tree) -> Job:
    """A rename of a folder that takes a task; `tree` is put into it."""
    job = make_transfer("move", side, side, label, name, tree)
    return replace(job, target_dir=job.source_dir, arrives=f"{name} anew", is_rename=True)


def make_decompress(source: Side, target: Side, label: str, stem: str, tree: Tree, kind: str, **more: bool) -> Job:
    """An archive of `tree`, put into the source, to be unpacked."""
    target.put(f"to-{label}", None)
    packed, name = trees.make_archive(tree, kind), f"{stem}.{kind}"
    source.put(f"from-{label}/{name}", packed)
    arrives = stem if more.get("put_into_new_dir") else ""
    return Job(
        "decompress", source, target, f"from-{label}", f"to-{label}", name, arrives, make_model(tree),
        held={"": fact(packed)}, more=dict(more),
    )  # fmt: skip


def prepare_jobs(backends: Mapping[str, Side], number: int) -> list[Job]:
    """The sources and target folders of one to three jobs, as a seed says."""
    rng = Random(number)
    return [_make_any(backends, rng, f"{number}-{count}") for count in range(rng.choice((1, 1, 2, 2, 3)))]


def _make_any(backends: Mapping[str, Side], rng: Random, label: str) -> Job:
    kind = rng.choice(REQUESTED_KINDS)
    target = rng.choice(tuple(backends))
    origin = rng.choice([backend for backend in backends if backend != target])
    if kind == "upload":
        return make_incoming(kind, backends[target], label, rng.choice(ODD), trees.content(rng, large=True))
    if kind == "offline_download":
        body = trees.content(rng, large=rng.random() < 0.8)
        return make_incoming(
            kind, backends[target], label, rng.choice(SERVER_FILE_NAMES), body, ranges=rng.random() < 0.7
        )
    if kind != "decompress" and rng.random() < 0.15:
        return make_transfer(
            kind, backends[origin], backends[target], label, rng.choice(ODD), {"": trees.content(rng, large=True)}
        )
    name = rng.choice(ODD) if rng.random() < 0.4 else "tree"
    large = rng.choice((0, 1, 1, 2)) if kind != "decompress" else rng.choice((0, 0, 1))
    tree = trees.generate(rng, rng.randrange(SMALL_FILES["bucket" if target == "bucket" else origin]), large)
    if kind != "decompress":
        return make_transfer(kind, backends[origin], backends[target], label, name, tree)
    more = {"put_into_new_dir": rng.random() < 0.6, "cache_full": rng.random() < 0.3}
    return make_decompress(
        backends[origin], backends[target], label, name[:100], tree, rng.choice(trees.ARCHIVES), **more
    )
