"""Storages as users have them: each generic driver, mounted in a running service, on a real server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from _pytest.mark import ParameterSet

from tests import servers
from tests.contract.api import fixtures
from tests.servers import dav, ftp, smb, ssh
from tests.support.service import Client

DONE_STATES = {2, 4, 7}
TASK_SECONDS = 120.0  # for a task to end, on a loaded machine
APACHE = dav.find_program("apache2")
PROXIED = {"web_proxy": True, "webdav_policy": "native_proxy", "cache_expiration": 0}  # fields of a storage
Options = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Served:
    """A running server: the options of a storage, and where its files lie as they are, if they do."""

    options: Options
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """A driver beside the server it is tried against; `serve` runs one with its state in an empty folder.

    `secret`: the option with the password, "" where there is none. `says_at_once`: whether a wrong one is told when the
    storage is mounted. `is_remote`: whether the driver itself speaks with the server.
    """

    driver: str
    serve: Callable[[Path, Client], AbstractContextManager[Served]]
    secret: str = "password"
    says_at_once: bool = True
    is_remote: bool = True
    missing: str = ""

    def make_wrong_secret(self) -> str:
        """A secret that opens nothing."""
        return ssh.export(ssh.make_key(uuid4().hex)) if self.secret == "private_key" else f"wrong-{uuid4().hex}"


@contextmanager
def _serve_local(folder: Path, _: Client) -> Iterator[Served]:
    yield Served({"root_folder_path": str(folder), "show_hidden": True}, folder)


@contextmanager
def _serve_s3(_: Path, __: Client) -> Iterator[Served]:
    # v2: moto's first version of the listing leaves the names of folders unencoded
    with servers.moto_s3() as endpoint:
        yield Served(servers.s3_options(endpoint, servers.make_bucket(endpoint), list_object_version="v2"))


@contextmanager
def _serve_ftp(start: ftp.Start, folder: Path, _: Client) -> Iterator[Served]:
    with start(folder) as server:
        served = server.make_folder()
        yield Served(server.options(served), served)


@contextmanager
def _serve_sftp(folder: Path, _: Client) -> Iterator[Served]:
    (folder / "served").mkdir()
    with ssh.openssh(folder) as server:
        yield Served(server.options(folder / "served"), folder / "served")


@contextmanager
def _serve_smb(folder: Path, _: Client) -> Iterator[Served]:
    with smb.samba(folder) as server:
        yield Served(server.options(), server.folder)


@contextmanager
def _serve_webdav(_: Path, __: Client) -> Iterator[Served]:
    with dav.apache() as server:
        yield Served(server.make_options(), server.files)


@contextmanager
def _serve_crypt(folder: Path, admin: Client) -> Iterator[Served]:
    with fixtures.local(admin, folder) as mounted:
        options = {
            "remote_path": mounted, "password": "hush hush", "salt": "salt", "filename_encryption": "standard",
            "directory_name_encryption": "true", "filename_encoding": "base64", "encrypted_suffix": ".bin",
            "show_hidden": True, "thumbnail": True,
        }  # fmt: skip
        yield Served(options)


KINDS: Mapping[str, Kind] = {
    kind.driver: kind
    for kind in (
        Kind("Local", _serve_local, secret="", is_remote=False),
        Kind("S3", _serve_s3, secret="", says_at_once=False, is_remote=False),
        Kind("FTP", partial(_serve_ftp, ftp.pyftpdlib)),
        Kind("SFTP", _serve_sftp, "private_key", missing="" if ssh.SSHD else "sshd is not installed"),
        Kind("SMB", _serve_smb, missing="" if smb.CAN_RUN else smb.REASON),
        Kind("WebDav", _serve_webdav, says_at_once=False, missing="" if APACHE else "apache2 is not installed"),
        Kind("Crypt", _serve_crypt, says_at_once=False, is_remote=False),
    )
}


def make_params(names: Iterable[str]) -> list[ParameterSet]:
    """Parameters of the fixture `kind`: the tests of a driver are run by one worker, with one server."""
    return [pytest.param(name, marks=pytest.mark.xdist_group(f"users of {name}")) for name in names]


def choose(*names: str) -> pytest.MarkDecorator:
    """The drivers on which a test is run, instead of all."""
    return pytest.mark.parametrize("kind", make_params(names), indirect=True)


class Place:
    """A mounted storage, and a new folder in it; `beside` is a new folder in a Local storage."""

    def __init__(self, admin: Client, kind: Kind, options: Options, mount: str) -> None:
        self.admin = admin
        self.kind = kind
        self.options = options
        self.mount = mount
        self.folder = f"{mount}/{uuid4().hex}"
        self.beside = f"/files/{uuid4().hex}"
        for path in (self.folder, self.beside):
            admin.ok("/api/fs/mkdir", path=path)

    def fill(self, *names: str, folder: str = "") -> None:
        """Files of the folder that hold their own name; a name that ends with a slash is a folder."""
        fixtures.fill(self.admin, folder or self.folder, *names)

    def read(self, folder: str = "") -> dict[str, bytes | None]:
        """All below a folder as a client sees it: files with their bytes, folders as None."""
        return read_tree(self.admin, folder or self.folder)

    def begin(self, verb: str, source: str, target: str, *names: str, **more: bool) -> None:
        """Copy or move, directly or as tasks, and wait for the end; a failure is an assertion."""
        body = {"src_dir": source, "dst_dir": target, "names": list(names)} | more
        data = self.admin.ok(f"/openlist/api/fs/{verb}", **body)
        for task in data.get("tasks", ()):
            wait_for_task(self.admin, verb, task["id"])

    @contextmanager
    def mounted_again(self, **fields: Any) -> Iterator[str]:
        """The same server folder as another storage; its path of `folder`."""
        options = self.options | fields.pop("options", {})
        with mount(self.admin, self.kind, options, **fields) as path:
            yield self.folder.replace(self.mount, path, 1)


@contextmanager
def mount(admin: Client, kind: Kind, options: Options, **fields: Any) -> Iterator[str]:
    """A storage whose bytes pass through the service."""
    with fixtures.mount(admin, kind.driver, addition=options, **(PROXIED | {"cache_expiration": 30} | fields)) as path:
        yield path


def read_tree(client: Client, folder: str) -> dict[str, bytes | None]:
    """All below a folder as a client sees it, freshly listed."""
    files: dict[str, bytes | None] = {}
    for row in client.ok("/api/fs/list", path=folder, refresh=True)["content"] or ():
        path, name = f"{folder}/{row['name']}", row["name"]
        if row["is_dir"]:
            files |= {name: None} | {f"{name}/{below}": content for below, content in read_tree(client, path).items()}
        else:
            answer = client.bytes(path)
            assert answer.status_code == 200, (path, answer.text)
            assert row["size"] == len(answer.content), path
            files[name] = answer.content
    return files


def own_names(*names: str) -> dict[str, bytes | None]:
    """Return the files that `fill` makes of these names, with each folder on the way."""
    files: dict[str, bytes | None] = {}
    for name in names:
        steps = name.rstrip("/").split("/")
        files |= {"/".join(steps[:count]): None for count in range(1, len(steps))}
        files[name.rstrip("/")] = None if name.endswith("/") else name.encode()
    return files


def wait_for_task(client: Client, kind: str, id: str, state: int = 2) -> dict[str, Any]:
    """The record of a task that ended, in the state it has to have."""
    end = time.monotonic() + TASK_SECONDS
    while True:
        row: dict[str, Any] = client.ok(f"/openlist/api/task/{kind}/info", params={"tid": id})
        if row["state"] in DONE_STATES and row["end_time"] is not None:
            assert row["state"] == state, row
            return row
        assert time.monotonic() < end, row
        time.sleep(0.01)


def wait_for_all(place: Place, kind: str) -> list[dict[str, Any]]:
    """The records of all ended tasks of a kind that stored something in a place, when none is left undone."""
    client, folders = place.admin, [path.rpartition("/")[2] for path in (place.folder, place.beside)]
    end = time.monotonic() + TASK_SECONDS
    while client.get(f"/openlist/api/task/{kind}/undone")["data"]:
        assert time.monotonic() < end, kind
        time.sleep(0.01)
    rows: list[dict[str, Any]] = client.get(f"/openlist/api/task/{kind}/done")["data"]
    return [row for row in rows if any(folder in row["name"] for folder in folders)]
