"""The form of an Alias storage."""

from __future__ import annotations

from typing import Literal

from mangrove.drivers.alias.sources import AliasRedirects
from mangrove.drivers.options import Options, option

WritePolicy = Literal["", "disabled", "first", "deterministic", "deterministic_or_all", "all", "all_strict"]
PutPolicy = Literal[
    "", "disabled", "first", "deterministic", "deterministic_or_all", "all", "all_strict", "random", "quota",
    "quota_strict",
]  # fmt: skip


class AliasOptions(Options):
    paths: str = option(required=True, type="text")
    read_conflict_policy: Literal["", "first", "random", "all"] = option("first")
    write_conflict_policy: WritePolicy = option(
        "disabled", help="The folders that a rename, a removal or a new folder changes, if several have the same name."
    )
    put_conflict_policy: PutPolicy = option(
        "disabled",
        help="The folders that receive uploaded, copied, moved or unpacked files, if several have the same name.",
    )
    file_consistency_check: bool = option(False)
    download_concurrency: int = option(
        0, help="Number of concurrent ranges of a file. It applies to downloads through this service."
    )
    download_part_size: int = option(0, help="Size of a range, in KiB. It applies to downloads through this service.")
    provider_pass_through: bool = option(False)
    details_pass_through: bool = option(False)

    def read_redirects(self) -> AliasRedirects:
        return AliasRedirects(self.paths)
