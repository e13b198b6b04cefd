"""Rights, rules and base paths apply to every SFTP operation with a path."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncssh
import pytest

from tests.protocol.protocols.people import ALL, READ_ONLY, Place, read_tree

pytestmark = pytest.mark.xdist_group("doors")
Client = asyncssh.SFTPClient
Verb = Callable[[Client, str], Awaitable[Any]]


async def write(client: Client, path: str) -> None:
    async with client.open(path, "wb") as file:
        await file.write(b"changed")


async def read(client: Client, path: str) -> None:
    async with client.open(path, "rb") as file:
        await file.read()


CHANGES: dict[str, Verb] = {
    "write": write,
    "append": lambda client, path: client.open(path, "ab"),
    "mkdir": lambda client, path: client.mkdir(path),
    "rmdir": lambda client, path: client.rmdir(path),
    "remove": lambda client, path: client.remove(path),
    "rename": lambda client, path: client.rename(path, path + "2"),
    "rename onto": lambda client, path: client.posix_rename("/mine", path),
    "setstat": lambda client, path: client.utime(path, (1, 1)),
    "truncate": lambda client, path: client.truncate(path, 1),
    "symlink": lambda client, path: client.symlink("/mine", path),
}  # fmt: skip
READS: dict[str, Verb] = {
    "read": read,
    "stat": lambda client, path: client.stat(path),
    "lstat": lambda client, path: client.lstat(path),
    "list": lambda client, path: client.listdir(path),
    "readlink": lambda client, path: client.readlink(path),
    "statvfs": lambda client, path: client.statvfs(path),
}
OUTSIDE_PATHS = ["/../secret", "/../secret/file", "../../secret/file", "/./../secret/file", "/mine/../../secret/file",
           "/disk/secret/file", "//../secret//file"]  # fmt: skip


@pytest.fixture(scope="module")
def home(place: Place) -> Place:
    (place.root / "home").mkdir()
    (place.root / "home/mine").write_bytes(b"mine")
    (place.root / "secret").mkdir()
    (place.root / "secret/file").write_bytes(b"secret")
    place.create_user("lea", base_path="/disk/home")
    place.create_user("max", READ_ONLY)
    place.create_user("nia", ALL & ~0x800)
    return place


def attempt(place: Place, name: str, verb: Verb, path: str) -> Any:
    async def main() -> Any:
        async with await place.connect(name) as connection, connection.start_sftp_client() as client:
            return await verb(client, path)

    return asyncio.run(main())


@pytest.mark.parametrize("verb", list(CHANGES | READS))
def test_no_verb_leads_out_of_the_base_path(home: Place, verb: str) -> None:
    before = read_tree(home.root / "secret")
    (home.root / "home/mine").write_bytes(b"mine")

    async def main() -> None:
        async with await home.connect("lea") as connection, connection.start_sftp_client() as client:
            for path in OUTSIDE_PATHS:
                try:
                    result = await (CHANGES | READS)[verb](client, path)
                except asyncssh.SFTPError:
                    continue
                assert verb in CHANGES or not result or b"secret" not in repr(result).encode(), (path, result)

    asyncio.run(main())
    assert read_tree(home.root / "secret") == before


@pytest.mark.parametrize("name", ["max", "nia"])
@pytest.mark.parametrize("verb", list(CHANGES))
def test_without_the_rights_nothing_is_changed(home: Place, verb: str, name: str) -> None:
    before = read_tree(home.root)
    for path in ("/disk/home/mine", "/disk/home/new", "/disk/home"):
        with pytest.raises(asyncssh.SFTPError):
            attempt(home, name, CHANGES[verb], path)
    assert read_tree(home.root) == before


def test_rules_hide_close_and_open_folders(home: Place) -> None:
    for name in ("hidden", "closed", "open"):
        (home.root / name).mkdir()
        (home.root / name / "file").write_bytes(b"here")
    rules = [
        {"path": "/disk", "hide": "^hidden$", "h_sub": False},
        {"path": "/disk/closed", "password": "sesame", "p_sub": True},
        {"path": "/disk/open", "write": True, "w_sub": True},
    ]
    for rule in rules:
        home.admin.ok("/api/admin/meta/create", **rule)
    home.create_user("oda", READ_ONLY | 0x800)

    async def main() -> None:
        async with await home.connect("oda") as connection, connection.start_sftp_client() as client:
            names = {str(name) for name in await client.listdir("/disk")}
            assert "hidden" not in names and {"closed", "open"} <= names
            for verb in READS:
                for path in ("/disk/hidden/file", "/disk/closed/file"):
                    with pytest.raises(asyncssh.SFTPError):
                        await READS[verb](client, path)
            await write(client, "/disk/open/new")
            with pytest.raises(asyncssh.SFTPError):
                await write(client, "/disk/home/new")

    asyncio.run(main())
    assert (home.root / "open/new").read_bytes() == b"changed"
