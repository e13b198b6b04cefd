"""WebDav: the form of a storage on a WebDAV server."""

from __future__ import annotations

from typing import Literal

from mangrove.drivers.base import DriverConfig, Options, option
from mangrove.drivers.unavailable import Pending


class WebDavOptions(Options):
    vendor: Literal["sharepoint", "other", ""] = option("other")
    address: str = option(required=True)
    username: str = option(required=True)
    password: str = option(required=True, secret=True)
    root_folder_path: str = option("/", required=True)
    tls_insecure_skip_verify: bool = option(False)


class WebDav(Pending):
    name = "WebDav"
    Options = WebDavOptions
    config = DriverConfig(default_root="/", prefer_proxy=True, direct_lookup=True)
