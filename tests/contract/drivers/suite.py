"""One suite for every driver: what the contract in `mangrove.drivers.base` promises, chosen by the powers it claims."""

from __future__ import annotations

from tests.contract.drivers import file_cases, folder_cases, part_cases  # they register their cases
from tests.contract.drivers.cases import CASES, run

__all__ = ["CASES", "run"]
MODULES = (file_cases, folder_cases, part_cases)
