"""What a kind of storage is like, as clients and the service have to know it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DriverConfig:
    """The `config` object of a driver's template, plus `check_status`: refuse every verb while start-up failed."""

    local_sort: bool = True
    only_proxy: bool = False
    no_cache: bool = False
    no_upload: bool = False
    need_ms: bool = False
    default_root: str = ""
    alert: str = ""
    only_local: bool = False
    only_indices: bool = False
    prefer_proxy: bool = False
    proxy_range: bool = False
    check_status: bool = False
    direct_lookup: bool = False  # `stat` is its own question, not a look into the parent's listing
    is_indexed: bool = True  # its names stay what they are, and end somewhere
