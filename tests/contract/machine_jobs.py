"""Jobs that state machines do, with what they read and leave."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from mangrove.core import deadlines
from mangrove.identity.rights import Right
from mangrove.records.tasks.model import Task
from mangrove.tasks import submit
from tests.support.origin import Origin
from tests.support.task_env import ALL_RIGHTS, Bucket, Disk, TaskEnv

PART = 5 << 20  # bytes; what S3 takes as the least
LARGE = bytes(range(256)) * (4 * PART // 3 // 256)
PIECE = 64 << 10
BODY = bytes(range(251)) * 1000
SMALL = {f"tree/d{number % 2}/f{number}": b"%d" % number * 50 for number in range(6)}
TREE = SMALL | {"tree/large.bin": LARGE}
SECOND_WORKERS = {"transfer": "Move", "remove": "Remove", "download": "Poll", "decompress": "Extract"}


def pack(**members: bytes) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items():
            made.writestr(name, content)
    return held.getvalue()


class Job:
    """One task between storages of its own. `wanted`: what the target holds when all went well."""

    def __init__(self, task_env: TaskEnv, web: Origin, verb: str) -> None:
        self.task_env = task_env
        self.verb = verb
        self.expected_files = {"decompress": SMALL, "offline_download": {"file.bin": BODY}}.get(verb, TREE)
        self._web = web
        self.source: Disk | Bucket = task_env.bucket() if verb == "move" else task_env.disk()
        self.target: Disk | Bucket = task_env.bucket() if verb == "copy" else task_env.disk()

    def open(self, url: str = "/file.bin", content: bytes = b"") -> Task:
        """Queue it, with storages as if it had never run."""
        task_env = self.task_env
        task_env.may(ALL_RIGHTS, disabled=False)
        self.source.clear()
        self.target.clear()
        if self.verb == "offline_download":
            return task_env.download(self.target.mount, self._web.address + url)
        if self.verb == "decompress":
            self.source.put("a.zip", content or pack(**SMALL))
            return task_env.decompress(self.source.mount, self.target.mount, "a.zip")
        for name, body in TREE.items():
            self.source.put(name, body)
        open_task: Callable[[str, str, str], Task] = getattr(task_env, self.verb)
        return open_task(self.source.mount, self.target.mount, "tree")

    def list_source(self) -> dict[str, bytes]:
        return self.source.files()


class Tidying(Job):
    """Run a task for the rest of a request: to remove names or empty folders, or to gather the files of folders."""

    NAMES = tuple(f"n{number:03}" for number in range(100))
    FOLDERS = tuple(f"e{number}" for number in range(10))

    def __init__(self, task_env: TaskEnv, web: Origin, verb: str) -> None:
        super().__init__(task_env, web, verb)
        self.disk = self.source = self.target = task_env.disk()
        remaining = {"to/mine": b"mine"} | {f"d/{name}": b"x" for name in self.NAMES}
        gathered = {f"to/{name.rpartition('/')[2]}": body for name, body in SMALL.items()}
        self.expected_files = {"remove": {"to/mine": b"mine"} | SMALL, "recursive_move": remaining | gathered}.get(
            verb, remaining | SMALL
        )

    def open(self, **_: Any) -> Task:
        task_env, disk = self.task_env, self.disk
        task_env.may(ALL_RIGHTS)
        disk.clear()
        for name in self.FOLDERS:
            (disk.root / f"tree/{name}/deep").mkdir(parents=True)
        for name, body in (
            SMALL.items() | {"to/mine": b"mine"}.items() | {f"d/{name}": b"x" for name in self.NAMES}.items()
        ):
            disk.put(name, body)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(deadlines.TimeBudget, "covers", lambda *_: False)
            patched.setattr(deadlines.TimeBudget, "get_seconds", lambda _: 0.0)
            (task,) = self._ask()
        return task

    def _ask(self) -> list[Task]:
        task_env, mount = self.task_env, self.disk.mount
        if self.verb == "remove":
            return task_env.do(submit.remove(task_env.access(f"{mount}/d", Right.DELETE), self.NAMES))
        if self.verb == "recursive_move":
            ends = task_env.access(f"{mount}/tree", Right.MOVE), task_env.access(f"{mount}/to", Right.MOVE)
            return task_env.do(submit.move_files(*ends, "cancel"))[1]
        return task_env.do(submit.remove_empty(task_env.access(f"{mount}/tree", Right.DELETE)))

    def list_source(self) -> dict[str, bytes]:
        """As of what is moved, nothing where all is done."""
        folders = [f"{name}/{below}" for name in self.FOLDERS for below in ("", "deep")]
        empty = {name: b"" for name in folders if (self.disk.root / "tree" / name).exists()}
        return empty if self.verb == "remove_empty_directory" else {}


VERBS = ["copy", "move", "offline_download", "decompress"]
REMOVAL_VERBS = ["remove", "remove_empty_directory", "recursive_move"]
