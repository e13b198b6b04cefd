"""Work that is killed: a generated tree, jobs between storages, SIGKILL at seeded instants, and what must hold then.

The model is the generated tree itself: after every kill each file is absent or whole at a target, whole at the source
unless a move has brought it over; at the end the target holds the tree and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import boto3

from tests import servers
from tests.service import Client, Service, started

PLACEHOLDER = ".mangrove"
PART = ".mangrove-"
SIDES = ("files", "second", "bucket")
KINDS = ("copy", "move", "upload")
SMALL_FILES = {"files": 200, "second": 200, "bucket": 40}  # by the side they come from
SETTLE_SECONDS = 60.0
LARGE = (9 << 20, 40 << 20)  # bytes; from 8 MiB on a file is stored in parts
LARGEST = 120 << 20
ODD = (
    "a b", " leading", "trailing ", "per%20cent%", "plus+and&amp;", "quote'\"", "#hash?query=1", "ünïcödé-ß", "日本語",
    "🎁 gift", ".hidden", "...", "semi;colon,comma", "[brackets](and) {braces}", "$dollar^caret~", "ends.in.dot.",
    "e\u0301 decomposed", "-rf", "<tag>", "n" * 200,
)  # fmt: skip

Model = dict[str, "Fact | None"]  # path below the top entry ("" for itself) to the file, None for a folder


class Broken(AssertionError):
    """What must hold does not."""


@dataclass(frozen=True, slots=True)
class Fact:
    """What a file must be."""

    size: int
    digest: str


def fact(content: bytes) -> Fact:
    return Fact(len(content), hashlib.sha256(content).hexdigest())


class Disk:
    """A folder that a Local storage serves, seen from behind."""

    def __init__(self, mount: str, root: Path) -> None:
        self.mount = mount
        self.root = root
        self._known: dict[tuple[int, int, int], Fact] = {}

    def put(self, path: str, content: bytes | None) -> None:
        place = self.root / path
        if content is None:
            place.mkdir(parents=True, exist_ok=True)
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)

    def _fact(self, path: str) -> Fact:
        """What a file is; read again only when its inode, which nobody can set back, says that it changed."""
        status = os.stat(path)
        key = (status.st_ino, status.st_ctime_ns, status.st_size)
        if key not in self._known:
            self._known[key] = fact(Path(path).read_bytes())
        return self._known[key]

    def tree(self, path: str) -> Model:
        """All that stands at `path` and below, parts of unfinished files left out."""
        top = self.root / path
        if not top.is_dir():
            return {"": self._fact(str(top))} if top.exists() else {}
        model: Model = {"": None}
        for folder, folders, names in os.walk(top):
            below = Path(folder).relative_to(top)
            model |= {str(below / name): None for name in folders}
            for name in names:
                if not name.startswith(PART):
                    model[str(below / name)] = self._fact(f"{folder}/{name}")
        return model

    def orphans(self) -> list[tuple[str, int]]:
        """Parts of unfinished files, with their sizes."""
        found = []
        for folder, _, names in os.walk(self.root):
            for name in names:
                if name.startswith(PART):
                    with suppress(FileNotFoundError):  # dropped while we looked
                        found.append((f"{folder}/{name}", os.stat(f"{folder}/{name}").st_size))
        return found

    def clear(self) -> None:
        for entry in self.root.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


class Bucket:
    """A bucket that an S3 storage serves, seen from behind."""

    def __init__(self, mount: str, endpoint: str) -> None:
        self.mount = mount
        self.name = servers.make_bucket(endpoint)
        keys = {"aws_access_key_id": servers.KEYS["access_key_id"]}
        keys["aws_secret_access_key"] = servers.KEYS["secret_access_key"]
        self._client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)
        self._known: dict[tuple[str, str], Fact] = {}

    def put(self, path: str, content: bytes | None) -> None:
        key = f"{path}/{PLACEHOLDER}" if content is None else path
        self._client.put_object(Bucket=self.name, Key=key, Body=content or b"")

    def _keys(self, prefix: str = "") -> dict[str, str]:
        """Keys to their tags, which the server computes of the bytes."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return {item["Key"]: item["ETag"] for page in pages for item in page.get("Contents", [])}

    def names(self, path: str) -> list[str]:
        """The keys of the files below a folder."""
        return [key for key in self._keys(f"{path}/") if not key.endswith(f"/{PLACEHOLDER}")]

    def _fact(self, key: str, tag: str) -> Fact:
        if (key, tag) not in self._known:
            self._known[key, tag] = fact(self._client.get_object(Bucket=self.name, Key=key)["Body"].read())
        return self._known[key, tag]

    def tree(self, path: str) -> Model:
        model: Model = {}
        for key, tag in self._keys(path).items():
            if key == path:
                model[""] = self._fact(key, tag)
            elif key.startswith(f"{path}/"):
                below = key.removeprefix(f"{path}/")
                steps = below.split("/")
                model |= {"/".join(steps[:count]): None for count in range(len(steps))}
                if steps[-1] != PLACEHOLDER:
                    model[below] = self._fact(key, tag)
        return model

    def orphans(self) -> list[tuple[str, int]]:
        """Multipart uploads that were neither completed nor aborted, with the bytes they hold."""
        found = []
        for one in self._client.list_multipart_uploads(Bucket=self.name).get("Uploads", []):
            with suppress(self._client.exceptions.NoSuchUpload):  # dropped while we looked
                parts = self._client.list_parts(Bucket=self.name, Key=one["Key"], UploadId=one["UploadId"])
                size = sum(part["Size"] for part in parts.get("Parts", []))
                found.append((f"{one['Key']} ({one['UploadId']})", size))
        return found

    def clear(self) -> None:
        for one in self._client.list_multipart_uploads(Bucket=self.name).get("Uploads", []):
            self._client.abort_multipart_upload(Bucket=self.name, Key=one["Key"], UploadId=one["UploadId"])
        keys = list(self._keys())
        for start in range(0, len(keys), 1000):
            batch = [{"Key": key} for key in keys[start : start + 1000]]
            self._client.delete_objects(Bucket=self.name, Delete={"Objects": batch})


Side = Disk | Bucket


@dataclass(slots=True)
class Job:
    """One task: what is carried, from where (None: `body` is uploaded) to where, and the tree it must become."""

    kind: str
    source: Side | None
    target: Side
    source_dir: str
    target_dir: str
    name: str
    model: Model
    body: bytes = b""

    def __str__(self) -> str:
        origin = f"{self.source.mount}/{self.source_dir}" if self.source else "(sent)"
        return f"{self.kind} {origin}/{self.name} -> {self.target.mount}/{self.target_dir}"

    def here(self) -> Model:
        """What the source holds of it."""
        return self.source.tree(f"{self.source_dir}/{self.name}") if self.source else self.model

    def there(self) -> Model:
        """What the target holds of it."""
        return self.target.tree(f"{self.target_dir}/{self.name}")


@dataclass(slots=True)
class Report:
    """What a run of one seed did."""

    kills: int = 0
    met: int = 0  # kills that met unfinished work
    orphans: list[tuple[str, int]] = field(default_factory=list)


class World:
    """A service that may be killed, and three storages: its first Local one, a second one, a bucket."""

    def __init__(self, folder: Path, endpoint: str) -> None:
        self.data = folder / "data"
        self.service: Service = started(self.data)
        self.client: Client = self.service.client()
        second = folder / "second"
        second.mkdir()
        self.sides: dict[str, Side] = {
            "files": Disk("/files", self.data / "files"),
            "second": Disk("/second", second),
            "bucket": Bucket("/bucket", endpoint),
        }
        bucket = self.sides["bucket"]
        assert isinstance(bucket, Bucket)
        self.mount("/second", "Local", root_folder_path=str(second), show_hidden=True)
        # v2: moto's first version of the listing leaves the names of folders unencoded
        self.mount("/bucket", "S3", **servers.s3_options(endpoint, bucket.name, list_object_version="v2"))

    def mount(self, path: str, driver: str, **options: Any) -> None:
        body = {"mount_path": path, "driver": driver, "addition": json.dumps(options), "cache_expiration": 0}
        self.client.ok("/api/admin/storage/create", **body)

    def kill(self) -> None:
        self.service.kill()
        self.client.http.close()

    def restart(self) -> None:
        token = self.client.token
        self.service = started(self.data)
        self.client = Client(self.service.address, token)

    def undone(self) -> list[Any]:
        return [row for kind in KINDS for row in self.tasks(kind, "undone")]

    def tasks(self, kind: str, shelf: str) -> list[Any]:
        answer = self.client.get(f"/openlist/api/task/{kind}/{shelf}")
        assert answer["code"] == 200, answer
        found: list[Any] = answer["data"]
        return found

    def settle(self, seconds: float = SETTLE_SECONDS) -> None:
        """Until no task is under way."""
        end = time.monotonic() + seconds
        while rows := self.undone():
            if time.monotonic() > end:
                raise Broken(f"not done after {seconds:.0f} s: {rows}")
            time.sleep(0.08)

    def log(self) -> str:
        return (self.data.parent / f"{self.data.name}.log").read_text()


@contextmanager
def world(folder: Path, endpoint: str) -> Iterator[World]:
    """A world that ends with the context."""
    made = World(folder, endpoint)
    try:
        yield made
    finally:
        if made.service.process.poll() is None:
            made.service.kill()


def content(rng: Random, large: bool = False) -> bytes:
    if large:
        size = rng.randrange(*LARGE) if rng.random() < 0.95 else rng.randrange(LARGE[1], LARGEST)
        block = rng.randbytes(1 << 20)
        return b"".join(number.to_bytes(4) + block[4:] for number in range(size >> 20)) + rng.randbytes(
            size % (1 << 20)
        )
    return rng.randbytes(rng.choice((0, 1, rng.randrange(2000), rng.randrange(40_000))))


def generated(rng: Random, files: int, large: int) -> dict[str, bytes | None]:
    """A tree below a top folder: paths in it to contents, None for folders."""
    folders = [""]
    for _ in range(rng.randrange(1, 8)):
        name = rng.choice(ODD) if rng.random() < 0.5 else f"d{rng.randrange(1000)}"
        folders.append(f"{rng.choice(folders)}/{name}".lstrip("/"))
    tree: dict[str, bytes | None] = dict.fromkeys(folders)
    for number in range(files + large):
        stem = rng.choice(ODD) if rng.random() < 0.3 else f"f{number}.bin"
        path = f"{rng.choice(folders)}/{stem}".lstrip("/")
        if path not in tree:
            tree[path] = content(rng, large=number >= files)
    for number in range(rng.randrange(3)):
        tree[f"{rng.choice(folders)}/empty{number}".lstrip("/")] = None
    return tree


def parents(tree: dict[str, bytes | None]) -> dict[str, bytes | None]:
    """The tree with every folder on the way named."""
    found: dict[str, bytes | None] = {"": None}
    for path, content in tree.items():
        steps = path.split("/")
        found |= {"/".join(steps[:count]): None for count in range(1, len(steps))} | {path: content}
    return found


def prepare(world: World, rng: Random, number: int) -> list[Job]:
    """The sources and target folders of one to three jobs."""
    jobs = []
    for count in range(rng.choice((1, 1, 2, 2, 3))):
        kind = rng.choice(("copy", "copy", "move", "move", "upload"))
        origin, goal = rng.choice([(one, other) for one in SIDES for other in SIDES if one != other])
        source, target = world.sides[origin], world.sides[goal]
        source_dir, target_dir = f"from-{number}-{count}", f"to-{number}-{count}"
        target.put(target_dir, None)
        if kind == "upload" or rng.random() < 0.15:
            name, tree = rng.choice(ODD), {"": content(rng, large=True)}
        else:
            name = rng.choice(ODD) if rng.random() < 0.4 else "tree"
            tree = parents(generated(rng, rng.randrange(SMALL_FILES[origin]), rng.choice((0, 1, 1, 2))))
        model = {path: None if body is None else fact(body) for path, body in tree.items()}
        job = Job(kind, source if kind != "upload" else None, target, source_dir, target_dir, name, model)
        if kind == "upload":
            job.body = tree[""] or b""
        else:
            for path, body in tree.items():
                source.put(f"{source_dir}/{name}/{path}".rstrip("/") if path else f"{source_dir}/{name}", body)
        jobs.append(job)
    return jobs


def begin(world: World, job: Job) -> None:
    target = f"{job.target.mount}/{job.target_dir}"
    if job.source is None:
        answer = world.client.put(f"{target}/{job.name}", job.body, as_task="true")
    else:
        source = f"{job.source.mount}/{job.source_dir}"
        answer = world.client.post(f"/api/fs/{job.kind}", src_dir=source, dst_dir=target, names=[job.name])
    if answer["code"] != 200:
        raise Broken(f"{job}: {answer}")


def check_nothing_lost(jobs: Sequence[Job]) -> None:
    """What must hold at every instant."""
    for job in jobs:
        here, there = job.here(), job.there()
        for name, wanted in job.model.items():
            if there.get(name, wanted) != wanted:
                raise Broken(f"{job}: {name} is half-visible at the target: {there[name]} instead of {wanted}")
            if here.get(name, wanted) != wanted:
                raise Broken(f"{job}: {name} at the source became {here[name]} instead of {wanted}")
            if name not in here and (job.kind != "move" or name not in there):
                raise Broken(f"{job}: {name} is gone from the source, and is not at the target")


def check_done(world: World, jobs: Sequence[Job]) -> None:
    """What must hold at the end."""
    rows = [row for kind in KINDS for row in world.tasks(kind, "done")]
    if failed := [row for row in rows if row["state"] != 2 or row["error"]]:
        raise Broken(f"not succeeded: {failed}")
    if len(rows) != len(jobs):
        raise Broken(f"{len(rows)} tasks for {len(jobs)} jobs: {rows}")
    for job in jobs:
        found = job.there()
        if found != job.model:
            raise Broken(f"{job}: {differences(job.model, found)}")
        if beside := set(job.target.tree(job.target_dir)) - {"", job.name} - {f"{job.name}/{one}" for one in job.model}:
            raise Broken(f"{job}: beside it stands {beside}")
        if job.source is None:
            continue
        left = {} if job.kind == "move" else job.model
        if (found := job.here()) != left:
            raise Broken(f"{job}: the source holds {differences(left, found)}")
    if staged := [str(path) for path in (world.data / "staging").rglob("*")]:
        raise Broken(f"left in staging: {staged}")


def differences(wanted: Model, found: Model) -> str:
    lost = [path for path in wanted if path not in found]
    extra = [path for path in found if path not in wanted]
    other = [path for path in wanted if path in found and wanted[path] != found[path]]
    return f"lost {lost}, extra {extra}, different {other}"


def run(world: World, number: int) -> Report:
    """One seed, from a clean world to a clean world."""
    rng = Random(number)
    report = Report()
    for side in world.sides.values():
        side.clear()
    for kind in KINDS:
        world.client.ok(f"/openlist/api/task/{kind}/clear_done")
    jobs = prepare(world, rng, number)
    for job in sorted(jobs, key=lambda job: job.source is not None):
        begin(world, job)
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
        time.sleep(0.05 + 1.45 * rng.betavariate(1, 8))
        report.met += bool(world.undone())
        world.kill()
        report.kills += 1
        check_nothing_lost(jobs)
        world.restart()
    world.settle()
    check_nothing_lost(jobs)
    check_done(world, jobs)
    for side in world.sides.values():
        report.orphans += side.orphans()
    if filled := [orphan for orphan in report.orphans if orphan[1]]:
        raise Broken(f"unfinished files that a record should know of: {filled}")
    if len(report.orphans) > report.kills * len(jobs):
        raise Broken(f"more unfinished files than killed workers: {report.orphans}")
    return report
