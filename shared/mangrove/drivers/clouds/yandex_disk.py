"""Yandex Disk."""

from __future__ import annotations

from mangrove.drivers.base import DriverConfig
from mangrove.drivers.clouds.powers import Drive
from mangrove.drivers.options import Options, option


class YandexDiskOptions(Options):
    root_folder_path: str = option("/", required=True)
    access_token: str = option(required=True, secret=True)


class YandexDisk(Drive):
    name = "YandexDisk"
    Options = YandexDiskOptions
    config = DriverConfig(only_proxy=True, default_root="/", check_status=True, direct_lookup=True)
    options: YandexDiskOptions
    scheme = "yandex-disk"
