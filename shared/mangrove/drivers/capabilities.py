"""The capabilities of a driver, and the configuration of its kind of storage. Each class declares both once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The optional operations of a driver.

    A field has the name of the `Driver` method that it announces; if it announces several, they are named there. A
    method that is not announced raises NotSupported. An announced one may do so too, for a single path.
    """

    write: bool = False
    write_whole: bool = False
    parts: bool = False  # begin, abort_by_key, write_part, finish, abort
    stream_part: bool = False
    open_staged: bool = False
    direct_uploads: bool = False  # sign_upload, sign_part, list_parts; with `parts`
    put_url: bool = False
    makedirs: bool = False
    rename: bool = False
    move: bool = False
    copy: bool = False
    copy_from: bool = False  # and copy_part_from
    remove: bool = False
    remove_unchanged: bool = False
    remove_empty: bool = False
    set_aside: bool = False
    set_many_aside: bool = False  # and stat_many
    versions: bool = False  # list_versions, restore_version, view_version, restore_removed, purge_removed, …
    set_modified: bool = False
    sync: bool = False
    link: bool = False
    open_file: bool = False
    read_whole: bool = False
    make_thumbnail: bool = False
    list_page: bool = False
    list_range: bool = False  # with `list_page`
    list_folders: bool = False
    list_names: bool = False  # and read_details; with `direct_lookup`
    find_others: bool = False  # and find_sources: the storage shows other parts of the tree
    identify: bool = False
    get_space: bool = False
    get_change_token: bool = False
    get_checksums: bool = False


NO_TRASH = "info|This storage has no trash: removals are final."
"""The alert of storages that can neither rename nor copy, or that the service itself makes up."""


@dataclass(frozen=True, slots=True)
class DriverProperties:
    """The configuration of a kind of storage: facts that the service and clients need before a storage is started."""

    local_sort: bool = True  # with `no_upload` and `only_local` the same for all kinds: clients read them
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
    check_status: bool = False  # every operation is refused if the start failed
    direct_lookup: bool = False  # `stat` is a request of its own, not a search in the listing of the parent
    is_indexed: bool = True  # its names are finite and do not change by themselves
