"""SMB: the form of a storage on a Windows share."""

from __future__ import annotations

from mangrove.drivers.base import DriverConfig, Options, option
from mangrove.drivers.unavailable import Pending


class SMBOptions(Options):
    root_folder_path: str = option(".", required=True)
    address: str = option(required=True)
    username: str = option(required=True)
    password: str = option(secret=True)
    share_name: str = option(required=True)


class SMB(Pending):
    name = "SMB"
    Options = SMBOptions
    config = DriverConfig(only_proxy=True, no_cache=True, default_root=".")
