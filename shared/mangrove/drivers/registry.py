"""The names of all drivers; a driver's module is imported when it is first asked for."""

from __future__ import annotations

from dataclasses import asdict
from importlib import import_module
from typing import Any

from mangrove.core.problems import Missing, Problem
from mangrove.drivers.base import Driver, ReadsRedirects, Redirects

MODULES = {
    "Alias": "alias",
    "AliyunDrive": "clouds.services",
    "AzureBlob": "clouds.services",
    "B2": "clouds.services",
    "COS": "clouds.services",
    "Crypt": "crypt.driver",
    "Dropbox": "clouds.services",
    "FTP": "ftp.driver",
    "GCS": "clouds.services",
    "GoogleDrive": "clouds.services",
    "Local": "local.driver",
    "OBS": "clouds.services",
    "OSS": "clouds.services",
    "OneDrive": "clouds.services",
    "S3": "s3.driver",
    "SFTP": "sftp.driver",
    "SMB": "smb.driver",
    "Seafile": "clouds.services",
    "Swift": "clouds.services",
    "TOS": "clouds.services",
    "UrlTree": "urltree",
    "Virtual": "virtual.driver",
    "WebDav": "webdav.driver",
    "YandexDisk": "clouds.services",
}
_REDIRECTING = frozenset({"Alias"})  # drivers whose options are ReadsRedirects
_SHOWING = _REDIRECTING | {"Crypt"}  # drivers that are ShowsOthers
_INTERNAL = ("proxy_range", "check_status", "direct_lookup", "is_indexed")  # what a form does not show


def list_names() -> list[str]:
    """All driver names, sorted."""
    return sorted(MODULES)


def load(name: str) -> type[Driver]:
    """The class of a driver; Missing when there is none of that name."""
    if name not in MODULES:
        raise Missing(f"driver [{name}] not found")
    kind: type[Driver] = getattr(import_module(f"mangrove.drivers.{MODULES[name]}"), name)
    return kind


def shows_others(name: str) -> bool:
    """Whether storages of that driver hold nothing themselves."""
    return name in _SHOWING


def find_redirects(name: str, addition: str) -> Redirects | None:
    """What the paths of a storage stand for; None for one with files of its own, or whose options cannot be read."""
    if name not in _REDIRECTING:
        return None
    try:
        options = load(name).Options.parse(addition)
    except Problem:
        return None  # it does not start either
    return options.read_redirects() if isinstance(options, ReadsRedirects) else None


def build_template(name: str) -> dict[str, Any]:
    """`{common, additional, config}`: the form of a driver."""
    from mangrove.drivers.options import list_common_items  # where a form is asked for, and nowhere else

    kind = load(name)
    config = {"name": name} | {key: value for key, value in asdict(kind.config).items() if key not in _INTERNAL}
    return {
        "common": [item._asdict() for item in list_common_items(kind.config)],
        "additional": [item._asdict() for item in kind.Options.list_form_items()],
        "config": config,
    }
