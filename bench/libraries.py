"""The libraries that drivers use, each doing the same work with as little around it as possible, and the drivers."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import quote
from xml.etree.ElementTree import XMLPullParser

BLOCK = 1 << 20
ALGORITHMS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com")
PROPFIND = (
    b'<?xml version="1.0"?><propfind xmlns="DAV:"><prop>'
    b"<resourcetype/><getcontentlength/><getlastmodified/><getetag/></prop></propfind>"
)
SMB_THREADS = 8  # more at once break the connection


class Library(ABC):
    """A client of a server. Paths begin with `/`, the root of what is served."""

    def __init__(self, protocol: str, options: dict[str, Any]) -> None:
        self.protocol = protocol
        self.options = options

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def stop(self) -> None: ...

    @abstractmethod
    async def list(self, path: str) -> int:
        """How many entries a folder has, after each has been seen with size and time."""

    @abstractmethod
    async def stat(self, path: str) -> object: ...

    @abstractmethod
    async def read(self, path: str) -> int:
        """How many bytes came."""

    @abstractmethod
    async def write(self, path: str, blocks: int) -> None:
        """Store a file of so many blocks of BLOCK bytes."""

    async def stat_all(self, paths: Sequence[str]) -> None:
        """All at once."""
        await asyncio.gather(*map(self.stat, paths))


class Mangrove(Library):
    """The driver, as a mount uses it."""

    async def start(self) -> None:
        from bench.protocols import PROTOCOLS

        self.driver: Any = await PROTOCOLS[self.protocol].start_driver(self.options)

    async def stop(self) -> None:
        await self.driver.stop()

    async def list(self, path: str) -> int:
        from mangrove.core.paths import TreePath

        return sum([len(batch) async for batch in self.driver.list(TreePath(path))])

    async def stat(self, path: str) -> object:
        from mangrove.core.paths import TreePath

        return await self.driver.stat(TreePath(path))

    async def read(self, path: str) -> int:
        from mangrove.core.paths import TreePath

        return sum([len(block) async for block in await self.driver.read(TreePath(path))])

    async def write(self, path: str, blocks: int) -> None:
        from mangrove.core.paths import TreePath
        from mangrove.drivers.base import Upload

        await self.driver.write(TreePath(path), make_body(blocks), Upload(blocks * BLOCK, 0.0))


async def make_body(blocks: int) -> AsyncIterator[bytes]:
    """Blocks that cost nothing to make."""
    block = os.urandom(BLOCK)
    for _ in range(blocks):
        yield block


class Asyncssh(Library):
    """SFTP by asyncssh: one connection, the fastest of its ciphers."""

    async def start(self) -> None:
        import asyncssh

        host, _, port = self.options["address"].rpartition(":")
        self._stack = AsyncExitStack()
        key = self.options.get("private_key")
        self._connection = await self._stack.enter_async_context(
            asyncssh.connect(
                host,
                int(port),
                username=self.options["username"],
                password=self.options.get("password") or None,
                client_keys=[asyncssh.import_private_key(key)] if key else None,
                known_hosts=None,
                config=None,
                encryption_algs=ALGORITHMS,
            )
        )
        self._sftp = await self._stack.enter_async_context(self._connection.start_sftp_client())
        self._root = str(self.options["root_folder_path"]).rstrip("/")
        limits = self._sftp.limits
        self._block = 32768 if limits.max_read_len == 16384 else -1  # a server that tells no limits

    async def stop(self) -> None:
        await self._stack.aclose()

    async def list(self, path: str) -> int:
        names = [entry async for entry in self._sftp.scandir(self._root + path)]
        return len([one for one in names if one.filename not in {".", ".."}])

    async def stat(self, path: str) -> object:
        return await self._sftp.stat(self._root + path)

    async def read(self, path: str) -> int:
        count = 0
        async with self._sftp.open(self._root + path, "rb", block_size=self._block) as file:
            while block := await file.read(BLOCK):
                count += len(block)
        return count

    async def write(self, path: str, blocks: int) -> None:
        async with self._sftp.open(self._root + path, "wb", block_size=self._block) as file:
            async for block in make_body(blocks):
                await file.write(block)


class Aioftp(Library):
    """FTP by aioftp, with one connection, on which one thing is done after the other."""

    async def start(self) -> None:
        import aioftp

        host, _, port = self.options["address"].rpartition(":")
        self._client = aioftp.Client(encoding="utf-8")
        await self._client.connect(host, int(port))
        await self._client.login(self.options["username"], self.options["password"])
        self._root = str(self.options["root_folder_path"]).rstrip("/")

    async def stop(self) -> None:
        await self._client.quit()

    async def list(self, path: str) -> int:
        return len(await self._client.list(self._root + path))

    async def stat(self, path: str) -> object:
        return await self._client.stat(self._root + path)

    async def stat_all(self, paths: Sequence[str]) -> None:
        for path in paths:
            await self.stat(path)

    async def read(self, path: str) -> int:
        async with self._client.download_stream(self._root + path) as stream:
            return sum([len(block) async for block in stream.iter_by_block(BLOCK)])

    async def write(self, path: str, blocks: int) -> None:
        async with self._client.upload_stream(self._root + path) as stream:
            async for block in make_body(blocks):
                await stream.write(block)


class Smbclient(Library):
    """SMB by smbprotocol's smbclient, in SMB_THREADS threads."""

    async def start(self) -> None:
        host, _, port = self.options["address"].rpartition(":")
        folder = str(self.options["root_folder_path"]).strip("./").replace("/", "\\")
        self._root = f"\\\\{host}\\{self.options['share_name']}" + (f"\\{folder}" if folder else "")
        self._more = {
            "port": int(port),
            "username": self.options["username"],
            "password": self.options["password"],
            "connection_cache": dict[str, Any](),
        }
        self._pool = ThreadPoolExecutor(SMB_THREADS)
        await self._call(self._register, host)

    def _register(self, host: str) -> None:
        import smbclient

        smbclient.register_session(host, **self._more)

    async def _call(self, function: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    def _find(self, path: str) -> str:
        return self._root + path.replace("/", "\\")

    async def stop(self) -> None:
        import smbclient

        await self._call(lambda: smbclient.reset_connection_cache(connection_cache=self._more["connection_cache"]))
        self._pool.shutdown()

    async def list(self, path: str) -> int:
        import smbclient

        return await self._call(lambda: len(list(smbclient.scandir(self._find(path), **self._more))))

    async def stat(self, path: str) -> object:
        import smbclient

        return await self._call(lambda: smbclient.stat(self._find(path), **self._more))

    async def read(self, path: str) -> int:
        import smbclient

        def read() -> int:
            with smbclient.open_file(self._find(path), "rb", buffering=0, share_access="rwd", **self._more) as file:
                return sum(len(block) for block in iter(lambda: file.read(BLOCK), b""))

        return await self._call(read)

    async def write(self, path: str, blocks: int) -> None:
        import smbclient

        def write() -> None:
            block = memoryview(os.urandom(BLOCK))
            with smbclient.open_file(self._find(path), "wb", buffering=0, **self._more) as file:
                for _ in range(blocks):
                    left = block
                    while left:
                        left = left[file.write(left.tobytes()) :]

        await self._call(write)


class Httpx(Library):
    """WebDAV by httpx and the standard library's parser."""

    async def start(self) -> None:
        import httpx

        login = httpx.BasicAuth(self.options["username"], self.options["password"])
        self._client = httpx.AsyncClient(auth=login, timeout=60, verify=False, trust_env=False)
        self._root = str(self.options["address"]).rstrip("/") + str(self.options["root_folder_path"]).rstrip("/")

    async def stop(self) -> None:
        await self._client.aclose()

    def _find(self, path: str) -> str:
        return self._root + quote(path)

    async def list(self, path: str) -> int:
        return await self._propfind(f"{path}/", "1") - 1

    async def stat(self, path: str) -> object:
        return await self._propfind(path, "0")

    async def _propfind(self, path: str, depth: str) -> int:
        headers = {"depth": depth, "content-type": "application/xml"}
        parser, count = XMLPullParser(), 0
        async with self._client.stream("PROPFIND", self._find(path), headers=headers, content=PROPFIND) as answer:
            assert answer.status_code == 207, answer.status_code
            async for block in answer.aiter_bytes():
                parser.feed(block)
                count += self._count(parser)
        return count

    @staticmethod
    def _count(parser: XMLPullParser) -> int:
        count = 0
        for _, element in parser.read_events():
            if element.tag == "{DAV:}response":
                count += 1
                element.clear()
        return count

    async def read(self, path: str) -> int:
        async with self._client.stream("GET", self._find(path)) as answer:
            assert answer.status_code == 200, answer.status_code
            return sum([len(block) async for block in answer.aiter_raw()])

    async def write(self, path: str, blocks: int) -> None:
        headers = {"content-length": str(blocks * BLOCK)}
        answer = await self._client.put(self._find(path), content=make_body(blocks), headers=headers)
        assert answer.status_code in {200, 201, 204}, answer.status_code


class LocalDriver(Mangrove):
    """What Crypt is beside: a Local driver on another folder of the same disk, with plain files."""

    async def start(self) -> None:
        from bench.protocols import start_local

        self.driver = await start_local(self.options["beside"])
