"""Clients of several protocols that change files while processes are killed, and know what must be there afterwards."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import asyncssh
import httpx

from tests.contract.api.multipart_client import MIB, MultipartClient
from tests.support.service import ADMIN_PASSWORD, Client

TROUBLES = (httpx.HTTPError, OSError, asyncssh.Error, AssertionError, TimeoutError, EOFError)
USER = "crash"  # of WebDAV and SFTP
SUCCEEDED = 2  # the state of a task
CHANGE_SECONDS = 20.0  # that one change may take
PAUSE_SECONDS = 0.02  # between two changes


class Writer(threading.Thread):
    """Changes files of its own folder until it is stopped.

    `states`: by name, the contents that a file may have; None for no file. An acknowledged change leaves one. A name
    whose change was not acknowledged is not used again: the change may still be made.
    """

    def __init__(self, folder: str) -> None:
        super().__init__(name=folder)
        self.folder = folder
        self.states: dict[str, set[bytes | None]] = {}
        self.history: dict[str, list[str]] = {}
        self.acknowledged = 0
        self.lost = 0
        self.last_trouble = ""
        self.problem: BaseException | None = None
        self.ending = threading.Event()
        self._usable: list[str] = []
        self._random = random.Random(folder)

    def run(self) -> None:
        try:
            while not self.ending.is_set():
                self._change()
                time.sleep(PAUSE_SECONDS)
        except BaseException as problem:
            self.problem = problem

    def _change(self) -> None:
        action = self._random.choice(["put", "put", "overwrite", "rename", "remove"])
        if action == "put" or not self._usable:
            name, content = uuid4().hex, self._make_content()
            self._attempt("put", {name: content}, lambda: self.put(name, content))
            return
        name = self._usable.pop(self._random.randrange(len(self._usable)))
        (content_before,) = self.states[name]
        if action == "overwrite":
            content = self._make_content()
            self._attempt("overwrite", {name: content}, lambda: self.put(name, content))
        elif action == "rename":
            new = uuid4().hex
            self._attempt("rename", {name: None, new: content_before}, lambda: self.rename(name, new))
        else:
            self._attempt("remove", {name: None}, lambda: self.remove(name))

    def _make_content(self) -> bytes:
        return self._random.randbytes(self._random.choice([0, 10, 5000, 300_000]))

    def _attempt(self, action: str, changes: dict[str, bytes | None], change: Callable[[], None]) -> None:
        for name, content in changes.items():
            self.states[name] = self.states.get(name, {None}) | {content}
            self.history.setdefault(name, []).append(action)
        try:
            change()
        except TROUBLES as trouble:
            self.lost += 1
            self.last_trouble = repr(trouble)[:300]
            self.close()
            return
        self.acknowledged += 1
        for name, content in changes.items():
            self.history[name].append("acknowledged")
            self.states[name] = {content}
            if content is not None:
                self._usable.append(name)

    def put(self, name: str, content: bytes) -> None:
        """Store a file; one of TROUBLES unless that is acknowledged."""
        raise NotImplementedError

    def rename(self, name: str, new: str) -> None:
        """Rename a file in its folder; one of TROUBLES unless that is acknowledged."""
        raise NotImplementedError

    def remove(self, name: str) -> None:
        """Remove a file; one of TROUBLES unless that is acknowledged."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connection; the next change makes another one."""


class ApiWriter(Writer):
    """Changes files by the JSON interface."""

    def __init__(self, folder: str, address: str, token: str) -> None:
        super().__init__(folder)
        self._address = address
        self._token = token
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = Client(self._address, self._token)
            self._client.http.timeout = httpx.Timeout(CHANGE_SECONDS)
        return self._client

    def put(self, name: str, content: bytes) -> None:
        answer = self.client.put(f"/files/{self.folder}/{name}", content)
        assert answer["code"] == 200, answer

    def rename(self, name: str, new: str) -> None:
        self.client.ok("/api/fs/rename", path=f"/files/{self.folder}/{name}", name=new)

    def remove(self, name: str) -> None:
        self.client.ok("/api/fs/remove", dir=f"/files/{self.folder}", names=[name])

    def close(self) -> None:
        if self._client is not None:
            self._client.http.close()
            self._client = None


class MultipartWriter(ApiWriter):
    """Stores files in chunks; each upload may meet several processes."""

    def _make_content(self) -> bytes:
        return self._random.randbytes(self._random.choice([10, MIB + 1, 2 * MIB]))

    def put(self, name: str, content: bytes) -> None:
        uploads = MultipartClient(self.client)
        id = uploads.begin(f"/files/{self.folder}/{name}", len(content))["upload_id"]
        for index in range(-(-len(content) // MIB)):
            self.close()  # another process may take the next chunk
            uploads.client = self.client
            answer = uploads.chunk(id, index, content[index * MIB : (index + 1) * MIB])
            assert answer["code"] == 200, answer
        answer = uploads.complete(id)
        assert answer["code"] == 200, answer
        if (task := answer["data"].get("task")) is not None:  # it stores the file, and is not done yet
            self._wait_for_task(task["id"])

    def _wait_for_task(self, id: str) -> None:
        end = time.monotonic() + CHANGE_SECONDS
        while self.client.ok("/openlist/api/task/upload/info", params={"tid": id})["state"] != SUCCEEDED:
            if time.monotonic() > end:
                raise TimeoutError
            time.sleep(0.1)


class CopyWriter(ApiWriter):
    """Copies files to /second by tasks. A file counts as stored in /second once its task was answered."""

    def put(self, name: str, content: bytes) -> None:
        super().put(name, content)
        self.client.ok("/api/fs/copy", src_dir=f"/files/{self.folder}", dst_dir="/second", names=[name])

    def _change(self) -> None:
        name, content = uuid4().hex, self._make_content()
        self._attempt("put and copy", {name: content}, lambda: self.put(name, content))


class DavWriter(Writer):
    """Changes files by WebDAV."""

    def __init__(self, folder: str, address: str) -> None:
        super().__init__(folder)
        self._address = address
        self._client: httpx.Client | None = None

    def _ask(self, method: str, name: str, content: bytes = b"", **headers: str) -> None:
        if self._client is None:
            self._client = httpx.Client(base_url=self._address, auth=(USER, ADMIN_PASSWORD), timeout=CHANGE_SECONDS)
        answer = self._client.request(method, self._get_path(name), content=content, headers=headers)
        assert answer.status_code in (200, 201, 204), (method, answer.status_code, answer.text)

    def _get_path(self, name: str) -> str:
        return f"/dav/files/{self.folder}/{name}"

    def put(self, name: str, content: bytes) -> None:
        self._ask("PUT", name, content)

    def rename(self, name: str, new: str) -> None:
        self._ask("MOVE", name, destination=f"{self._address}{self._get_path(new)}")

    def remove(self, name: str) -> None:
        self._ask("DELETE", name)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


class SftpWriter(Writer):
    """Changes files by SFTP, each in a connection of its own."""

    def __init__(self, folder: str, port: int) -> None:
        super().__init__(folder)
        self._port = port

    def _run(self, work: Callable[[Any], Any]) -> None:
        async def run() -> None:
            async with asyncio.timeout(CHANGE_SECONDS):
                how: dict[str, Any] = {"known_hosts": None, "config": None, "agent_path": None, "client_keys": None}
                connecting = asyncssh.connect("127.0.0.1", self._port, username=USER, password=ADMIN_PASSWORD, **how)
                async with connecting as connection, connection.start_sftp_client() as client:
                    await work(client)

        asyncio.run(run())

    def put(self, name: str, content: bytes) -> None:
        async def write(client: Any) -> None:
            async with client.open(f"/files/{self.folder}/{name}", "wb") as file:
                await file.write(content)

        self._run(write)

    def rename(self, name: str, new: str) -> None:
        self._run(lambda client: client.rename(f"/files/{self.folder}/{name}", f"/files/{self.folder}/{new}"))

    def remove(self, name: str) -> None:
        self._run(lambda client: client.remove(f"/files/{self.folder}/{name}"))
