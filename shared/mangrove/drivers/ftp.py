"""FTP: the form of a storage on an FTP server."""

from __future__ import annotations

from mangrove.drivers.base import DriverConfig, Options, option
from mangrove.drivers.unavailable import Pending


class FTPOptions(Options):
    address: str = option(required=True)
    encoding: str = option(required=True)
    username: str = option(required=True)
    password: str = option(required=True, secret=True)
    cwd_list: bool = option(False, help="enter directory before listing")
    root_folder_path: str = option("/", required=True)


class FTP(Pending):
    name = "FTP"
    Options = FTPOptions
    config = DriverConfig(only_proxy=True, default_root="/")
