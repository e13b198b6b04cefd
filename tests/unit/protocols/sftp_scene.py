"""The SFTP door in this process, and every verb of it that takes a path."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import asyncssh
from asyncssh.constants import FXP_LINK
from asyncssh.packet import String, UInt32, UInt64

from mangrove.core import runtime
from mangrove.core.aws import AwsSession
from mangrove.core.problems import NotSupported
from mangrove.drivers.base import StagedFile
from mangrove.identity import keys
from mangrove.identity.passwords import Hasher
from mangrove.identity.rights import Right
from mangrove.protocols.sftp.protocol import CHECK_FILE_NAME
from mangrove.protocols.sftp.server import SftpConnections, listen
from mangrove.records.store.base import Connections
from mangrove.records.store.keys import Keyring
from tests.servers import ssh
from tests.unit.tree.environment import TreeEnv

DOOR = Right.FTP_READ | Right.FTP_MANAGE
EVERYTHING = DOOR | Right.WRITE | Right.RENAME | Right.MOVE | Right.COPY | Right.DELETE
SECRET = b"canary of the neighbours"
SECRET_NAME = "canary.txt"
NEIGHBOURS = ("ab", "a.", "a ", "A", "b")
OUR_NAMES = ("f.txt", "sub", "empty", "locked", "hidden", "reserved", "open")

Client = asyncssh.SFTPClient
Verb = Callable[[Client, bytes], Awaitable[Any]]


async def _open(client: Client, path: bytes, mode: str) -> bytes:
    async with client.open(path, mode) as file:
        if mode == "rb":
            content = await file.read()
            return bytes(content)
        await file.write(b"overwritten")
    return b""


def _make_opener(mode: str) -> Verb:
    return lambda client, path: _open(client, path, mode)


async def _ask(client: Client, kind: int | bytes, *parts: bytes) -> Any:
    """A request that asyncssh's client has no call for."""
    return await client._handler._make_request(kind, *parts)


VERBS: Mapping[str, Mapping[str, Verb]] = {
    "_process_open": {mode: _make_opener(mode) for mode in ("rb", "wb", "ab", "xb", "r+b")},
    "_process_stat": {"": lambda client, path: client.stat(path)},
    "_process_lstat": {"": lambda client, path: client.lstat(path)},
    "_process_setstat": {
        "times": lambda client, path: client.utime(path, (1, 1)),
        "mode": lambda client, path: client.chmod(path, 0o777),
        "size": lambda client, path: client.truncate(path, 1),
    },
    "_process_lsetstat": {"": lambda client, path: client.utime(path, (1, 1), follow_symlinks=False)},
    "_process_opendir": {"": lambda client, path: client.readdir(path)},
    "_process_remove": {"": lambda client, path: client.remove(path)},
    "_process_mkdir": {"": lambda client, path: client.mkdir(path)},
    "_process_rmdir": {"": lambda client, path: client.rmdir(path)},
    "_process_realpath": {"": lambda client, path: client.realpath(path)},
    "_process_rename": {
        "from": lambda client, path: client.rename(path, b"/stolen"),
        "to": lambda client, path: client.rename(b"/f.txt", path),
    },
    "_process_posix_rename": {
        "from": lambda client, path: client.posix_rename(path, b"/stolen"),
        "to": lambda client, path: client.posix_rename(b"/f.txt", path),
        "folder to": lambda client, path: client.posix_rename(b"/sub", path),
    },
    "_process_readlink": {"": lambda client, path: client.readlink(path)},
    "_process_symlink": {
        "to": lambda client, path: client.symlink(path, b"/link"),
        "at": lambda client, path: client.symlink(b"/f.txt", path),
    },
    "_process_link": {"to": lambda client, path: _ask(client, FXP_LINK, String(b"/link"), String(path), b"\0")},
    "_process_statvfs": {"": lambda client, path: client.statvfs(path)},
    "_process_check_file_name": {
        "": lambda client, path: _ask(
            client, CHECK_FILE_NAME, String(path), String(b"md5,sha256"), UInt64(0), UInt64(0), UInt32(0)
        )
    },
}  # fmt: skip
"""The ways in which each request with a path is attacked, by its handler."""

WITHOUT_PATH = {
    "_process_close", "_process_read", "_process_write", "_process_fstat", "_process_fsetstat", "_process_readdir",
    "_process_lock", "_process_unlock", "_process_fsync", "_process_limits", "_process_check_file",
}  # fmt: skip


def iter_verbs() -> Iterator[tuple[str, Verb]]:
    for kind, ways in VERBS.items():
        for way, verb in ways.items():
            yield f"{kind.removeprefix('_process_')} {way}".strip(), verb


class Scene:
    """A user at /disk/team/a among neighbours whose entries contain SECRET."""

    def __init__(self, tree: TreeEnv) -> None:
        self.tree = tree
        self.outside = tree.folder / "outside"
        self.outside.mkdir()
        (self.outside / SECRET_NAME).write_bytes(SECRET)
        self.root = tree.mount_disk("/disk")
        self.home = self.root / "team/a"
        for name in NEIGHBOURS:
            folder = self.root / "team" / name
            folder.mkdir(parents=True)
            (folder / SECRET_NAME).write_bytes(SECRET)
        (self.root / "team" / SECRET_NAME).write_bytes(SECRET)
        self.home.mkdir()
        self.reset()
        keys.add(tree.user.id, "laptop", ssh.make_key("u").export_public_key("openssh").decode())
        self.be(EVERYTHING)

    def be(self, permission: int, **fields: Any) -> None:
        self.tree.change_user(int(permission), **({"base_path": "/disk/team/a"} | fields))

    def reset(self) -> None:
        """The user's own things as they are at the beginning, and links that lead out of the storage."""
        (self.home / "f.txt").write_bytes(b"mine")
        for name in OUR_NAMES[1:]:
            (self.home / name).mkdir(exist_ok=True)
        for name in OUR_NAMES[3:]:
            (self.home / name / "file").write_bytes(SECRET)
        for name, target in (("out", self.outside), ("file", self.outside / SECRET_NAME), ("new", self.outside / "x")):
            link = self.home / f"link-{name}"
            if not link.is_symlink():
                link.unlink(missing_ok=True)
                link.symlink_to(target)

    @asynccontextmanager
    async def enter(self, username: str = "u", **how: Any) -> AsyncIterator[Client]:
        """A session by key, through the door as it is on one machine."""
        connections = SftpConnections(None)
        acceptor = await listen("127.0.0.1", 0, asyncssh.generate_private_key("ssh-ed25519"), connections)
        options = {"client_keys": [ssh.make_key("u")], "known_hosts": None, "config": None, "agent_path": None} | how
        try:
            async with (
                asyncssh.connect("127.0.0.1", acceptor.get_port(), username=username, **options) as connection,
                connection.start_sftp_client() as client,
            ):
                yield client
        finally:
            acceptor.close()
            connections.abort()
            await asyncio.sleep(0)

    def find_without(self, *names: str) -> dict[Path, bytes]:
        """Every file that is neither the user's own nor below `names` in their folder, and what is in it."""
        own = [self.home / name for name in names]
        return {
            path: path.read_bytes()
            for place in (self.root, self.outside)
            for path in sorted(place.rglob("*"))
            if path.is_file() and not path.is_symlink() and not any(path.is_relative_to(own_path) for own_path in own)
        }


@contextmanager
def open_scene(folder: Path) -> Iterator[Scene]:
    """Open a scene in a runtime of its own, with the records of the test."""
    with runtime.use(runtime.current().keep(AwsSession, Connections, Keyring, Hasher)):
        tree = TreeEnv(folder)
        try:
            yield Scene(tree)
        finally:
            tree.close()


async def attempt(verb: Verb, client: Client, path: bytes) -> Any:
    """Return the answer to a client; None if it is refused."""
    try:
        return await asyncio.wait_for(verb(client, path), 60)
    except asyncssh.SFTPError as error:
        assert "internal error" not in str(error), (path, error)
        return None


async def open_nothing() -> StagedFile:
    """Answer as a storage without nameless files."""
    raise NotSupported
