"""Seafile: a library of a server."""

from __future__ import annotations

from mangrove.drivers.base import DriverConfig
from mangrove.drivers.clouds.powers import WritableCloud
from mangrove.drivers.options import Options, option


class SeafileOptions(Options):
    root_folder_path: str = option("/", required=True)
    endpoint: str = option(required=True)
    repo_name: str = option(required=True)
    username: str = option(required=True)
    password: str = option(required=True, secret=True)


class Seafile(WritableCloud):
    name = "Seafile"
    Options = SeafileOptions
    config = DriverConfig(only_proxy=True, default_root="/", check_status=True, direct_lookup=True)
    options: SeafileOptions
    scheme = "seafile"
    place = ("endpoint", "username", "repo_name")
