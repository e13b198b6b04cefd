"""The names of all drivers; a driver's module is imported when it is first asked for."""

from __future__ import annotations

from dataclasses import asdict
from importlib import import_module
from typing import Any

from mangrove.drivers import unavailable
from mangrove.drivers.base import Driver
from mangrove.drivers.options import list_common_items
from mangrove.problems import Missing

MODULES = {
    "Alias": "alias",
    "Local": "local.driver",
    "S3": "s3.driver",
    "UrlTree": "urltree",
    "Virtual": "virtual",
}
_INTERNAL = ("proxy_range", "check_status", "direct_lookup")  # fields of a config that its form does not show


def list_names() -> list[str]:
    """All driver names, sorted."""
    return sorted([*MODULES, *unavailable.DRIVERS])


def load(name: str) -> type[Driver]:
    """The class of a driver; Missing when there is none of that name."""
    if name in unavailable.DRIVERS:
        return unavailable.DRIVERS[name]
    if name not in MODULES:
        raise Missing(f"driver [{name}] not found")
    kind: type[Driver] = getattr(import_module(f"mangrove.drivers.{MODULES[name]}"), name)
    return kind


def build_template(name: str) -> dict[str, Any]:
    """`{common, additional, config}`: the form of a driver."""
    kind = load(name)
    config = {"name": name} | {key: value for key, value in asdict(kind.config).items() if key not in _INTERNAL}
    return {
        "common": [item._asdict() for item in list_common_items(kind.config)],
        "additional": [item._asdict() for item in kind.Options.list_form_items()],
        "config": config,
    }
