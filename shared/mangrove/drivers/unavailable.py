"""Drivers whose form is known and whose code comes with a later version: they refuse to mount."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Literal, NamedTuple, NoReturn

from mangrove.drivers.base import Driver, DriverConfig, Entry, Options, option
from mangrove.paths import TreePath
from mangrove.problems import NotSupported


class UnavailableDriver(Driver):
    """Every verb, and the start, says that the driver is not available."""

    def _refuse(self) -> NoReturn:
        raise NotSupported(f"the driver {self.name} is not available in this version yet")

    async def start(self) -> None:
        self._refuse()

    def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        self._refuse()

    async def stat(self, path: TreePath) -> Entry:
        self._refuse()

    async def read(self, path: TreePath, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        self._refuse()


class CryptOptions(Options):
    filename_encryption: Literal["off", "standard", "obfuscate", ""] = option("off", required=True)
    directory_name_encryption: Literal["false", "true", ""] = option("false", required=True)
    remote_path: str = option(required=True, help="This is where the encrypted data stores")
    password: str = option(required=True, help="the main password", secret=True)
    salt: str = option(help="A second password; not required, but better to have one", secret=True)
    encrypted_suffix: str = option(
        ".bin", required=True, help="for advanced user only! encrypted files will have this suffix"
    )
    filename_encoding: Literal["base64", "base32", "base32768", ""] = option(
        "base64", required=True, help="for advanced user only!"
    )
    thumbnail: bool = option(False, required=True, help="enable thumbnail which pre-generated under .thumbnails folder")
    show_hidden: bool = option(True, help="show hidden directories and files")


class FTPOptions(Options):
    address: str = option(required=True)
    encoding: str = option(required=True)
    username: str = option(required=True)
    password: str = option(required=True, secret=True)
    cwd_list: bool = option(False, help="enter directory before listing")
    root_folder_path: str = option("/", required=True)


class SFTPOptions(Options):
    address: str = option(required=True)
    username: str = option(required=True)
    private_key: str = option(type="text", secret=True)
    password: str = option(secret=True)
    passphrase: str = option(secret=True)
    root_folder_path: str = option("/", required=True)
    ignore_symlink_error: bool = option(False)


class SMBOptions(Options):
    root_folder_path: str = option(".", required=True)
    address: str = option(required=True)
    username: str = option(required=True)
    password: str = option(secret=True)
    share_name: str = option(required=True)


class WebDavOptions(Options):
    vendor: Literal["sharepoint", "other", ""] = option("other")
    address: str = option(required=True)
    username: str = option(required=True)
    password: str = option(required=True, secret=True)
    root_folder_path: str = option("/", required=True)
    tls_insecure_skip_verify: bool = option(False)


class Form(NamedTuple):
    """What is known of a driver that is not there yet."""

    options: type[Options]
    config: DriverConfig


FORMS: Mapping[str, Form] = {
    "Crypt": Form(
        CryptOptions,
        DriverConfig(only_proxy=True, no_cache=True, default_root="/", check_status=True, direct_lookup=True),
    ),
    "FTP": Form(FTPOptions, DriverConfig(only_proxy=True, default_root="/")),
    "SFTP": Form(SFTPOptions, DriverConfig(only_proxy=True, default_root="/", check_status=True)),
    "SMB": Form(SMBOptions, DriverConfig(only_proxy=True, no_cache=True, default_root=".")),
    "WebDav": Form(WebDavOptions, DriverConfig(default_root="/", prefer_proxy=True, direct_lookup=True)),
}
DRIVERS: Mapping[str, type[Driver]] = {
    name: type(name, (UnavailableDriver,), {"name": name, "Options": form.options, "config": form.config})
    for name, form in FORMS.items()
}
