"""Aliyun Drive: one of the drives of an account."""

from __future__ import annotations

from typing import Literal

from mangrove.drivers.base import DriverConfig
from mangrove.drivers.clouds.powers import Drive
from mangrove.drivers.options import Options, option


class AliyunDriveOptions(Options):
    root_folder_path: str = option("/", required=True)
    drive_type: Literal["default", "backup", "resource", ""] = option("default", required=True)
    refresh_token: str = option(secret=True)
    client_id: str = option()
    client_secret: str = option(secret=True)
    access_token: str = option(help="in place of the three above; it ends soon", secret=True)


class AliyunDrive(Drive):
    name = "AliyunDrive"
    Options = AliyunDriveOptions
    config = DriverConfig(only_proxy=True, default_root="/", check_status=True, direct_lookup=True)
    options: AliyunDriveOptions
    scheme = "aliyun-drive"
    credentials = (("refresh_token", "client_id", "client_secret"), ("access_token",))
