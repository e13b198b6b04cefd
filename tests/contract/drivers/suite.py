"""One suite for every driver: the contract of `mangrove.drivers.base`, selected by the driver's capabilities."""

from __future__ import annotations

from tests.contract.drivers import (  # they register their cases
    change_cases,
    concurrent_cases,
    existing_cases,
    file_cases,
    folder_cases,
    listing_cases,
    more_part_cases,
    name_cases,
    part_cases,
    read_cases,
    restart_cases,
    staged_cases,
    trash_cases,
    version_cases,
    write_cases,
)
from tests.contract.drivers.cases import CASES, Server, list_cases, on_disk, run

__all__ = ["CASES", "Server", "list_cases", "on_disk", "run"]
MODULES = (
    file_cases, read_cases, write_cases, staged_cases, version_cases, name_cases, listing_cases, folder_cases,
    change_cases, trash_cases, existing_cases, concurrent_cases, part_cases, more_part_cases, restart_cases,
)  # fmt: skip
