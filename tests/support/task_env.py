"""Tasks inside the test's own process: real records, storages and workers, machines that a test runs by hand."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar
from uuid import uuid4

import pytest

from mangrove.core.problems import ResourceNotFound
from mangrove.identity.rights import Caller, Right
from mangrove.records.tasks.model import Task
from tests import servers
from tests.support.platforms import use_dispatcher

ALL_RIGHTS = 0xFFFF
WAIT_SECONDS = 300.0  # that a test waits for anything
PART = ".mangrove-"  # what names of unfinished files begin with
Before = Callable[[str, int], None]
Result = TypeVar("Result")


@cache
def _client(endpoint: str) -> Any:
    """Talks to an S3 server; one for all tests, since making one takes longer than most of what is asked of it."""
    return servers.make_client("s3", endpoint)


class Bucket:
    """A bucket mounted as a storage, and seen from behind."""

    def __init__(self, mount: str, client: Any, name: str) -> None:
        self.mount = mount
        self.client = client
        self.name = name

    def put(self, key: str, content: bytes) -> None:
        self.client.put_object(Bucket=self.name, Key=key, Body=content)

    def files(self) -> dict[str, bytes]:
        """All objects but the marks of folders."""
        items = self.client.list_objects_v2(Bucket=self.name).get("Contents", [])
        keys = [item["Key"] for item in items if not item["Key"].endswith("/.mangrove")]
        return {key: self.client.get_object(Bucket=self.name, Key=key)["Body"].read() for key in keys}

    def clear(self) -> None:
        for item in self.client.list_objects_v2(Bucket=self.name).get("Contents", []):
            self.client.delete_object(Bucket=self.name, Key=item["Key"])

    def unfinished(self) -> list[str]:
        """The keys of multipart uploads under way."""
        return [upload["Key"] for upload in self.client.list_multipart_uploads(Bucket=self.name).get("Uploads", [])]


class Disk:
    """A folder mounted as a Local storage, and seen from behind."""

    def __init__(self, mount: str, root: Path) -> None:
        self.mount = mount
        self.root = root

    def put(self, key: str, content: bytes) -> None:
        (self.root / key).parent.mkdir(parents=True, exist_ok=True)
        (self.root / key).write_bytes(content)

    def files(self) -> dict[str, bytes]:
        return {str(path.relative_to(self.root)): path.read_bytes() for path in self.root.rglob("*") if path.is_file()}

    def clear(self) -> None:
        shutil.rmtree(self.root)
        self.root.mkdir()

    def unfinished(self) -> list[str]:
        return [str(path) for path in self.root.rglob(f"{PART}*")]


class TaskEnv:
    """`user` has every right; `started`: the tasks whose machines are to be run, in order."""

    def __init__(self, folder: Path, endpoint: Callable[[], str]) -> None:
        from mangrove.records import users

        self.folder = folder
        self.started: list[Task] = []
        self.endpoint = endpoint
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.user = users.create(username=f"u{uuid4().hex}", password_hash="x", role=0, permission=ALL_RIGHTS)

    def do(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run asynchronous work where the drivers live."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(WAIT_SECONDS)

    def set(self, **values: str) -> None:
        from mangrove.records import settings

        settings.save(values)

    def may(self, permission: int = ALL_RIGHTS, **fields: Any) -> None:
        """Change the user."""
        from mangrove.records import users

        self.user = users.change(self.user.id, permission=permission, **fields)

    def rule(self, path: str, **fields: Any) -> None:
        """A new rule at a path."""
        from mangrove.records import metas

        metas.create(path=path, **fields)

    def mount(self, driver: str, options: dict[str, Any]) -> str:
        """The path of a new storage."""
        from datetime import UTC, datetime

        from mangrove.records import storages

        path = f"/{uuid4().hex}"
        storages.create(mount_path=path, driver=driver, addition=json.dumps(options), modified=datetime.now(UTC))
        return path

    def disk(self, **options: Any) -> Disk:
        """A new Local storage."""
        root = self.folder / uuid4().hex
        root.mkdir()
        return Disk(self.mount("Local", {"root_folder_path": str(root), "show_hidden": True} | options), root)

    def bucket(self, **options: Any) -> Bucket:
        """A new S3 storage; all are on one server."""
        endpoint, name = self.endpoint(), f"b{uuid4().hex}"
        client = _client(endpoint)
        client.create_bucket(Bucket=name)
        return Bucket(self.mount("S3", servers.s3_options(endpoint, name, **options)), client, name)

    def driver(self, mount: str) -> Any:
        """The running driver of a storage."""
        from mangrove.core.paths import TreePath
        from mangrove.tree import mounts

        async def find() -> Any:
            mount_found, _ = mounts.select_mount(await mounts.ready(), TreePath(mount))
            return await mount_found.get_driver()

        return self.do(find())

    def caller(self, right: Right = Right.READ) -> Caller:
        return Caller(self.user, right)

    def access(self, path: str, right: Right) -> Any:
        from mangrove.tree import access

        return self.do(access.at(self.caller(right), path))

    def transfer(self, verb: str, source: str, target: str, *names: str, **conflict: bool) -> list[Task]:
        """The tasks that a copy or move of entries between two folders takes."""
        from mangrove.tasks import submit
        from mangrove.tree.operations.plans import OnConflict, TransferRequest

        right = Right.COPY if verb == "copy" else Right.MOVE
        ends = self.access(source, right), self.access(target, right)
        return self.do(submit.transfer(TransferRequest(right, *ends, names, OnConflict(**conflict))))

    def copy(self, source: str, target: str, name: str, **conflict: bool) -> Task:
        (task,) = self.transfer("copy", source, target, name, **conflict)
        return task

    def move(self, source: str, target: str, name: str, **conflict: bool) -> Task:
        (task,) = self.transfer("move", source, target, name, **conflict)
        return task

    def download(self, target: str, url: str, policy: str = "delete_on_upload_succeed") -> Task:
        from mangrove.tasks import submit

        (task,) = self.do(submit.download(self.access(target, Right.OFFLINE_DOWNLOAD), [url], "SimpleHttp", policy))
        return task

    def decompress(self, source: str, target: str, name: str, **options: Any) -> Task:
        from mangrove.tasks import submit
        from mangrove.tasks.submit import DecompressOptions

        ends = self.access(source, Right.DECOMPRESS), self.access(target, Right.DECOMPRESS)
        (task,) = self.do(submit.decompress(*ends, [name], DecompressOptions(**options)))
        return task

    def compress(self, source: str, target: str, name: str, *names: str) -> Task:
        from mangrove.tasks import submit

        return self.do(submit.compress(self.access(source, Right.WRITE), self.access(target, Right.WRITE), names, name))

    def read(self, task: Task) -> Task:
        from mangrove.records.tasks import model as tasks

        return tasks.get(task.id)

    def view(self, task: Task) -> tuple[int, str]:
        """State and error of a task as its owner sees them."""
        from mangrove.tasks.core import queue

        view = queue.view(queue.get(task.kind, task.id, self.caller()))
        return view.state, view.error

    def is_queued(self, task: Task) -> bool:
        from mangrove.tasks.core import queue

        try:
            queue.get(task.kind, task.id, self.caller())
        except ResourceNotFound:
            return False
        return True

    def run(self, task: Task, before: Before | None = None) -> list[str]:
        """Run a task's machine to its end; the states visited. `before` is called before each call of a worker, with
        its name and how many calls of it there were; what the last one did is in the records then."""
        from mangrove.standalone.machines import load_machine
        from mangrove.tasks.core import steps
        from mangrove.tasks.core.registry import find_machine

        machine, handlers = load_machine(find_machine(task))
        work, visited = calls(handlers, before), list[str]()

        async def threaded(name: str, value: dict[str, Any]) -> dict[str, Any]:
            return await asyncio.to_thread(work, name, value)

        async def whole() -> None:
            async with asyncio.timeout(WAIT_SECONDS):
                await machine.run({"tid": task.id}, threaded, visited)

        with at_once(), pytest.MonkeyPatch.context() as patched:
            if before is not None:
                patched.setattr(steps, "MAX_UNWRITTEN_SECONDS", 0)
            asyncio.run(whole())
        return visited

    def run_all(self, before: Before | None = None) -> None:
        """Run every machine that is to be run, also those that others start meanwhile."""
        while self.started:
            self.run(self.started.pop(0), before)

    def restart_process(self) -> None:
        """As if the process had died and begun anew: it holds no task, and none is kept for the next slice."""
        from mangrove.core import runtime
        from mangrove.tasks.core.leases import HeldTasks

        runtime.put(HeldTasks, HeldTasks())

    def list_staged(self) -> list[str]:
        """The names in staging."""
        folder = self.folder / "staging"
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def close(self) -> None:
        from mangrove.tree import mounts

        self.do(self._end())  # else a thread that waits for something here would wait for ever
        self.do(mounts.close())
        self.do(self.loop.shutdown_default_executor())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(WAIT_SECONDS)
        self.loop.close()


class RecordingDispatcher:
    """Starts no machine; the tasks that are to be `started` or expedited are appended to a list."""

    is_remote = False

    def __init__(self, started: list[Task] | None = None, expedited: list[Task] | None = None) -> None:
        self.started = [] if started is None else started
        self.expedited = [] if expedited is None else expedited
        self.forgotten: list[Task] = []

    def start(self, task: Task, suffix: str = "") -> None:
        self.started.append(task)

    def expedite(self, task: Task) -> None:
        self.expedited.append(task)

    def forget(self, task: Task) -> None:
        self.forgotten.append(task)


Work = Callable[[str, dict[str, Any]], dict[str, Any]]


def calls(handlers: dict[str, Callable[..., Any]], before: Before | None = None) -> Work:
    """The workers of a machine by the names of their states."""
    made: dict[str, int] = {}

    def work(name: str, value: dict[str, Any]) -> dict[str, Any]:
        if before is not None:
            before(name, made.get(name, 0))
        made[name] = made.get(name, 0) + 1
        answer: dict[str, Any] = handlers[name](value, None)
        return answer

    return work


@contextmanager
def at_once() -> Iterator[list[float]]:
    """The runner of this machine waits for nothing; the seconds that it would have waited."""
    from mangrove.standalone import machines

    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(float(seconds))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(machines, "asyncio", SimpleNamespace(**vars(asyncio) | {"sleep": sleep}))
        yield waits


@contextmanager
def task_env(folder: Path, endpoint: Callable[[], str]) -> Iterator[TaskEnv]:
    """A task environment of its own; `endpoint` starts or names an S3 server when it is first needed."""
    from mangrove.core import runtime
    from mangrove.core.aws import AwsSession
    from mangrove.records.store.base import Connections
    from mangrove.records.store.keys import Keyring
    from mangrove.tasks.core.worker_loop import use_loop

    own_runtime = runtime.current().keep(AwsSession, Connections, Keyring)
    with pytest.MonkeyPatch.context() as patch, runtime.use(own_runtime):
        patch.setenv("MANGROVE_DATA", str(folder))
        made = TaskEnv(folder, endpoint)
        use_loop(made.loop)
        use_dispatcher(RecordingDispatcher(made.started))
        try:
            yield made
        finally:
            made.close()
