"""SFTP: the form of a storage on an SSH server."""

from __future__ import annotations

from mangrove.drivers.base import DriverConfig, Options, option
from mangrove.drivers.unavailable import Pending


class SFTPOptions(Options):
    address: str = option(required=True)
    username: str = option(required=True)
    private_key: str = option(type="text", secret=True)
    password: str = option(secret=True)
    passphrase: str = option(secret=True)
    root_folder_path: str = option("/", required=True)
    ignore_symlink_error: bool = option(False)


class SFTP(Pending):
    name = "SFTP"
    Options = SFTPOptions
    config = DriverConfig(only_proxy=True, default_root="/", check_status=True)
