"""The names of all drivers; a driver's module is imported on first use."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Set
from dataclasses import asdict
from importlib import import_module
from typing import Any, NamedTuple

from mangrove.core.platform import platform
from mangrove.core.problems import BadRequest, NotSupported, Problem, ResourceNotFound
from mangrove.drivers.base import Driver, DriverContext, Redirects


class DriverModule(NamedTuple):
    """The facts of a driver that are known without the import of its module, which may take long."""

    path: str  # below this package
    shows_others: bool = False  # its capability `find_others`
    redirects: bool = False  # its options have `read_redirects`
    needs_disk: bool = False  # of this machine, whose folders its option `root_folder_path` names


DRIVERS = {
    "Alias": DriverModule("alias.driver", shows_others=True, redirects=True),
    "AliyunDrive": DriverModule("clouds.services"),
    "AzureBlob": DriverModule("clouds.services"),
    "B2": DriverModule("clouds.services"),
    "COS": DriverModule("clouds.services"),
    "Crypt": DriverModule("crypt.driver", shows_others=True),
    "Dropbox": DriverModule("clouds.services"),
    "FTP": DriverModule("ftp.driver"),
    "GCS": DriverModule("clouds.services"),
    "GoogleDrive": DriverModule("clouds.services"),
    "Local": DriverModule("local.driver", needs_disk=True),
    "OBS": DriverModule("clouds.services"),
    "OSS": DriverModule("clouds.services"),
    "OneDrive": DriverModule("clouds.services"),
    "S3": DriverModule("s3.driver"),
    "SFTP": DriverModule("sftp.driver"),
    "SMB": DriverModule("smb.driver"),
    "Seafile": DriverModule("clouds.services"),
    "Swift": DriverModule("clouds.services"),
    "TOS": DriverModule("clouds.services"),
    "UrlTree": DriverModule("urltree.driver"),
    "Virtual": DriverModule("virtual.driver"),
    "WebDav": DriverModule("webdav.driver"),
    "YandexDisk": DriverModule("clouds.services"),
}
NO_DISK = "a Local storage needs a disk that stays, and there is none in the cloud: mount a bucket with S3 instead"
_INTERNAL = ("proxy_range", "check_status", "direct_lookup", "is_indexed")  # what a form does not show


def list_names() -> list[str]:
    """Return all driver names, sorted."""
    return sorted(DRIVERS)


def load(name: str) -> type[Driver]:
    """Return the class of a driver. Raise ResourceNotFound if there is none of that name."""
    if name not in DRIVERS:
        raise ResourceNotFound(f"driver [{name}] not found")
    kind: type[Driver] = getattr(import_module(f"mangrove.drivers.{DRIVERS[name].path}"), name)
    return kind


def shows_others(name: str) -> bool:
    """True if storages of that driver have no files of their own."""
    return name in DRIVERS and DRIVERS[name].shows_others


def needs_disk(name: str) -> bool:
    """True if storages of that driver are folders of this machine."""
    return name in DRIVERS and DRIVERS[name].needs_disk


def check_disk(name: str) -> None:
    """Raise NotSupported for a driver that needs a disk on a platform without one."""
    if needs_disk(name) and not platform().allows_local_driver:
        raise NotSupported(NO_DISK)


def find_redirects(name: str, addition: str) -> Redirects | None:
    """Return the targets of the paths of a storage; None for one with files of its own, or whose options cannot be
    read.
    """
    if name not in DRIVERS or not DRIVERS[name].redirects:
        return None
    try:
        options = load(name).Options.parse(addition)
    except Problem:
        return None  # it does not start either
    return options.read_redirects()


def refuse_trash(name: str, addition: str) -> None:
    """Raise BadRequest for options of a trash in the JSON text `addition` of a driver without one."""
    try:
        values = json.loads(addition or "{}")
    except ValueError:
        return  # the driver does not start either
    known = {item.name for item in load(name).Options.list_form_items()}
    for option in ("trash_days", "trash_max_size", "keep_versions"):
        if isinstance(values, dict) and values.get(option) and option not in known:
            raise BadRequest(f"option {option}: {name} storages do not have it{_explain_refusal(name, known)}")


def _explain_refusal(name: str, known: Set[str]) -> str:
    if shows_others(name):
        return "; set it at the storage behind"
    return "" if "trash_days" in known else "; their removals are final"


def build_template(name: str) -> dict[str, Any]:
    """Return `{common, additional, config}`: the form of a driver."""
    from mangrove.drivers.options import list_common_items  # imported here, because only forms need it

    kind = load(name)
    config = {"name": name} | {key: value for key, value in asdict(kind.config).items() if key not in _INTERNAL}
    return {
        "common": [item._asdict() for item in list_common_items(kind.config)],
        "additional": [item._asdict() for item in kind.Options.list_form_items()],
        "config": config,
    }


class StartedStorage:
    """A storage of the service itself: `<data>/<folder>`, or the bucket that a variable names."""

    def __init__(self, folder: str, bucket_variable: str, driver: Driver | None = None) -> None:
        self._places = folder, bucket_variable
        self._driver = driver
        self._starting = asyncio.Lock()

    async def get_driver(self) -> Driver:
        """Return the storage, started at the first call. Raise Problem if none is configured."""
        async with self._starting:
            if self._driver is None:
                name, options = platform().describe_own_storage(*self._places)
                kind = load(name)
                driver = kind(kind.Options.parse(json.dumps(options)), DriverContext())
                await driver.start()
                self._driver = driver
            return self._driver
