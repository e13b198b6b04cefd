"""The servers on which drivers are measured, each with its library."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench import libraries
from bench.libraries import Library
from mangrove.core.paths import TreePath
from mangrove.drivers import registry
from mangrove.drivers.base import Driver, DriverContext, Upload
from tests.servers import dav, ftp, smb, ssh

Options = dict[str, Any]
APACHE = dav.find_program("apache2")
EMPTY = b"RCLONE\0\0" + bytes(24)  # an encrypted file without bytes


@dataclass(frozen=True, slots=True)
class Served:
    """A running server: the options of a storage on it, and the folder that it serves."""

    options: Options
    folder: Path


@dataclass(frozen=True, slots=True)
class Protocol:
    """A driver, the library beside it, and how its server is run on a new folder; `missing`: why it cannot be."""

    driver: str
    library: type[Library]
    serve: Callable[[Path], AbstractContextManager[Served]]
    missing: str = ""

    async def start_driver(self, options: Options) -> Driver:
        return await (start_crypt(options) if self.driver == "Crypt" else start_driver(self.driver, options))


async def start_driver(name: str, options: Options, context: DriverContext | None = None) -> Driver:
    """A running driver, which knows of no tree unless `context` has one."""
    kind = registry.load(name)
    driver = kind(kind.Options.parse(json.dumps(options)), context or DriverContext())
    await driver.start()
    return driver


class OneMount:
    """A tree with one storage."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def resolve(self, path: TreePath) -> tuple[Driver, TreePath]:
        return self._driver, path

    def folders(self, path: TreePath) -> list[str]:
        return []


@contextmanager
def serve_ftp(start: ftp.Start, folder: Path) -> Iterator[Served]:
    with start(folder) as server:
        served = server.make_folder()
        served.chmod(0o777)
        yield Served(server.options(served), served)


@contextmanager
def serve_openssh(folder: Path) -> Iterator[Served]:
    served = folder / "served"
    served.mkdir()
    with ssh.openssh(folder) as server:
        yield Served(server.options(served), served)


@contextmanager
def serve_samba(folder: Path) -> Iterator[Served]:
    with smb.samba(folder) as server:
        yield Served(server.options(), server.folder)


@contextmanager
def serve_webdav(start: Callable[[], AbstractContextManager[dav.DavServer]], _: Path) -> Iterator[Served]:
    with start() as server:
        yield Served(server.make_options(), server.files)


@contextmanager
def serve_crypt(folder: Path) -> Iterator[Served]:
    """Two folders of a disk, an encrypted one for the driver and one as it is for the Local driver beside it."""
    for name in ("encrypted", "plain"):
        (folder / name).mkdir()
    options = {
        "password": "hush hush", "salt": "salt", "filename_encryption": "standard", "filename_encoding": "base64",
        "directory_name_encryption": "false", "encrypted_suffix": ".bin", "show_hidden": True, "remote_path": "/remote",
        "root": str(folder / "encrypted"), "beside": str(folder / "plain"),
    }  # fmt: skip
    yield Served(options, folder / "plain")


async def start_local(root: str) -> Driver:
    return await start_driver("Local", {"root_folder_path": root, "show_hidden": True})


async def start_crypt(options: Options) -> Driver:
    """On a Local driver that serves the folder `root` of the options."""
    context = DriverContext(mount_path=TreePath("/crypt"), resolver=OneMount(await start_local(options["root"])))
    return await start_driver("Crypt", options | {"remote_path": "/"}, context)


async def fill_crypt(served: Served) -> None:
    """The encrypted folder, with all that the other one has: its names encrypted, and its bytes."""
    driver: Any = await start_crypt(served.options)
    for source in sorted(served.folder.iterdir()):
        if source.is_dir():
            await driver.makedirs(TreePath(f"/{source.name}"))
            await asyncio.to_thread(_encrypt_names, driver, source, Path(served.options["root"]) / source.name)
        else:
            await driver.write(TreePath(f"/{source.name}"), _read(source), Upload(source.stat().st_size, 0.0))
    await driver.stop()


def _encrypt_names(driver: Any, source: Path, target: Path) -> None:
    """Empty files under the encrypted names of a folder."""
    for name in os.listdir(source):
        (target / driver.remote.names.encrypt(name, False)).write_bytes(EMPTY)


async def _read(source: Path) -> AsyncIterator[bytes]:
    with source.open("rb") as file:
        while block := file.read(libraries.BLOCK):
            yield block


PROTOCOLS: Mapping[str, Protocol] = {
    "SFTP OpenSSH": Protocol("SFTP", libraries.Asyncssh, serve_openssh, "" if ssh.SSHD else "no sshd"),
    "FTP pyftpdlib": Protocol("FTP", libraries.Aioftp, partial(serve_ftp, ftp.pyftpdlib)),
    "FTP vsftpd": Protocol("FTP", libraries.Aioftp, partial(serve_ftp, ftp.vsftpd), "" if ftp.VSFTPD else "no vsftpd"),
    "SMB Samba": Protocol("SMB", libraries.Smbclient, serve_samba, "" if smb.CAN_RUN else smb.REASON),
    "WebDav Apache": Protocol(
        "WebDav",
        libraries.Httpx,
        partial(serve_webdav, dav.apache),
        "" if dav.find_program("apache2") else "no apache2",
    ),
    "WebDav rclone": Protocol("WebDav", libraries.Httpx, partial(serve_webdav, dav.rclone_dav)),
    "Crypt on Local": Protocol("Crypt", libraries.LocalDriver, serve_crypt),
}
