"""The names of all drivers; a driver's module is imported when it is first asked for."""

from __future__ import annotations

from dataclasses import asdict
from importlib import import_module
from typing import Any

from mangrove.drivers.base import Driver
from mangrove.drivers.options import common_items
from mangrove.problems import Missing

MODULES = {
    "Alias": "alias",
    "Crypt": "crypt",
    "FTP": "ftp",
    "Local": "local.driver",
    "S3": "s3.driver",
    "SFTP": "sftp",
    "SMB": "smb",
    "UrlTree": "urltree",
    "Virtual": "virtual",
    "WebDav": "webdav",
}
_INTERNAL = ("proxy_range", "check_status", "direct_lookup")  # what a config says to us alone


def names() -> list[str]:
    """All driver names, sorted."""
    return sorted(MODULES)


def load(name: str) -> type[Driver]:
    """The class of a driver; Missing when there is none of that name."""
    if name not in MODULES:
        raise Missing(f"driver [{name}] not found")
    module = import_module(f"mangrove.drivers.{MODULES[name]}")
    kind: type[Driver] = getattr(module, name)
    return kind


def template(name: str) -> dict[str, Any]:
    """`{common, additional, config}`: the form of a driver."""
    kind = load(name)
    config = {"name": name} | {key: value for key, value in asdict(kind.config).items() if key not in _INTERNAL}
    return {"common": common_items(kind.config), "additional": kind.Options.items(), "config": config}
