"""The verbs that read: list a folder, get one object, its sub-folders, its direct link."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from mangrove.drivers.base import Entry, Link, Links
from mangrove.problems import Denied, NotAFile, NotFound, NotSupported, Problem, StorageProblem, StorageUnavailable
from mangrove.tree import links, mounts, objects
from mangrove.tree.access import PathAccess, locate, lookup
from mangrove.tree.listing import CachedFolder, View, explain_list_failure, listings
from mangrove.tree.mounts import Located, Mount

_OPTIONS = orjson.OPT_UTC_Z


@dataclass(frozen=True, slots=True)
class Slice:
    """Which part of a listing is wanted: `page` from 1, `per_page` 0 for everything."""

    page: int = 1
    per_page: int = 0

    def indices(self, total: int) -> tuple[int, int]:
        """Start and stop, within 0..total."""
        if self.per_page <= 0:
            return (0, total) if self.page <= 1 else (total, total)
        start = min((max(self.page, 1) - 1) * self.per_page, total)
        return start, min(start + self.per_page, total)


async def list_folder(access: PathAccess, part: Slice, refresh: bool, base: str) -> dict[str, Any]:
    """The answer of `fs/list`; `base` is the address clients reach us at, for thumbnails."""
    access.require_read()
    if refresh and not access.can_write():
        raise Denied("Refresh without permission")
    virtual = access.find_virtual_folders()
    found = await _read_folder(access, refresh, bool(virtual))
    provider, total = "unknown", 0
    rows: list[bytes] = []
    if found is not None:
        folder, located = found
        view = _get_view(access, folder, located.mount, base)
        provider = located.driver.name
        rows = view.get_rows(*part.indices(len(view.visible)))
        listings().update_weight(folder)
        total = len(view.visible)
        virtual = _exclude_names(virtual, folder)
    rows = rows + await _make_virtual_rows(access, virtual, part, total)
    readme, header = access.rules.get_texts(access.path)
    return {
        "content": _join_rows(rows),
        "total": total + len(virtual),
        "readme": readme,
        "header": header,
        "write": access.can_write(),
        "write_content_bypass": access.rules.is_open_for_writing(access.path),
        "provider": provider,
    }


def _join_rows(rows: list[bytes]) -> orjson.Fragment:
    """Rows as one JSON array, ready to be put into an answer."""
    return orjson.Fragment(b"[" + b",".join(rows) + b"]")


def _exclude_names(virtual: dict[str, Mount], folder: CachedFolder) -> dict[str, Mount]:
    """The virtual folders whose names the storage's own listing does not have."""
    return {name: mount for name, mount in virtual.items() if folder.find(name) is None}


async def _read_folder(access: PathAccess, refresh: bool, has_virtual: bool) -> tuple[CachedFolder, Located] | None:
    """The storage's listing; None where only virtual folders answer."""
    has_virtual = has_virtual or access.path in access.table.ancestors
    if has_virtual and not access.table.find_mounts(access.path):
        return None
    direct_lookup = False
    try:
        mount, inner = access.find_mount()
    except StorageProblem:
        if access.path == "/" and not access.table.mounts:
            raise StorageProblem("failed get storage: storage not found; please add a storage first") from None
        raise StorageProblem(f"failed get storage: storage not found; rawPath: {access.path}") from None
    try:
        located = Located(await mount.get_driver(), inner, mount)
        direct_lookup = located.driver.config.direct_lookup
        return await listings().get(located, refresh=refresh), located
    except StorageProblem as problem:
        if has_virtual:
            return None
        raise explain_list_failure(problem, direct_lookup) from problem


def _get_view(access: PathAccess, folder: CachedFolder, mount: Mount, base: str) -> View:
    must_sign = links.requires_signature(access.settings, access.rules, mount, access.path)
    expires = links.compute_expiry(access.settings) if must_sign else -1
    visibility = access.make_visibility_filter()
    thumbs = base if folder.has_thumbs else ""
    return folder.get_view(
        (access.table.version, str(access.path), visibility.key, expires, thumbs),
        visibility.select,
        _make_encoder(access, expires, base),
    )


def _make_encoder(access: PathAccess, expires: int, base: str) -> Callable[[Entry], bytes]:
    codes = access.settings.type_codes
    token = access.settings.token
    prefix = "" if access.path == "/" else str(access.path)

    def encode(entry: Entry) -> bytes:
        path = f"{prefix}/{entry.name}"
        sign = links.sign(token, path, expires) if expires >= 0 and token and not entry.is_dir else ""
        return orjson.dumps(
            objects.make_row(codes, entry, sign, _make_thumb_url(path, entry, sign, base)), None, _OPTIONS
        )

    return encode


def _make_thumb_url(path: str, entry: Entry, sign: str, base: str) -> str:
    return f"{base}/d{links.encode_path(path)}?type=thumb&sign={sign}" if entry.thumb and not entry.is_dir else ""


async def _make_virtual_rows(access: PathAccess, virtual: dict[str, Mount], part: Slice, before: int) -> list[bytes]:
    if not virtual:
        return []
    start, stop = part.indices(before + len(virtual))
    chosen = list(virtual.items())[max(start - before, 0) : max(stop - before, 0)]
    return list(await asyncio.gather(*(_make_virtual_row(access, name, mount) for name, mount in chosen)))


async def _make_virtual_row(access: PathAccess, name: str, mount: Mount) -> bytes:
    details = await _get_mount_details(access, mount) if mount.path == access.path / name else {}
    return orjson.dumps(objects.make_row({}, _make_mount_entry(name, mount)) | details, option=_OPTIONS)


async def _get_mount_details(access: PathAccess, mount: Mount) -> dict[str, Any]:
    """How full a mount is, where the caller may know and the storage reports it."""
    if access.caller.is_guest or access.settings.hide_storage_details:
        return {}
    space = await mounts.get_capacity(mount)
    return {"mount_details": objects.make_capacity_row(space)} if space else {}


def _make_mount_entry(name: str, mount: Mount) -> Entry:
    return Entry(name, 0, mount.storage.modified.timestamp(), True)


async def get_object(access: PathAccess, base: str) -> dict[str, Any]:
    """The answer of `fs/get`."""
    access.require_read()
    readme, header = access.rules.get_texts(access.path)
    tail = {"readme": readme, "header": header, "provider": "unknown", "related": None, "raw_url": ""}
    virtual = _find_virtual_entry(access)
    if virtual is not None:
        entry, provider = virtual
        mounted = access.table.by_path.get(access.path)
        details = await _get_mount_details(access, mounted[0]) if mounted else {}
        return objects.make_row({}, entry) | tail | {"provider": provider} | details
    located = await locate(access)
    try:
        entry = await lookup(located, to_show=True)
    except StorageProblem as problem:
        if not located.driver.config.direct_lookup or isinstance(problem, StorageUnavailable):
            raise
        raise problem.with_prefix("failed to get obj") from problem
    codes = access.settings.type_codes
    must_sign = links.requires_signature(access.settings, access.rules, located.mount, access.path)
    sign = links.make_signature(access.settings, access.path) if must_sign and not entry.is_dir else ""
    record = objects.make_row(
        codes,
        entry._replace(name=access.path.name or "root"),
        sign,
        _make_thumb_url(access.path, entry, sign, base),
    )
    record |= tail | {"provider": entry.provider or located.driver.name}
    if not entry.is_dir:
        record["raw_url"] = await _get_raw_url(access, located, entry, base, must_sign)
    record["related"] = await _find_related(access, codes, must_sign)
    return record


def _find_virtual_entry(access: PathAccess) -> tuple[Entry, str] | None:
    """The root, a mount's own folder, or a folder that only leads to mounts; with its provider."""
    mounted = access.table.by_path.get(access.path)
    if mounted:
        mount = mounted[0]
        return _make_mount_entry(access.path.name or "root", mount), mount.storage.driver
    if access.path == "/" and not access.table.find_mounts(access.path):
        return Entry("root", 0, 0.0, True), "unknown"
    if access.path in access.table.ancestors:
        name = access.path.name
        return _make_mount_entry(name, access.table.find_virtual_folders(access.path.parent)[name]), "unknown"
    return None


async def _find_related(access: PathAccess, codes: dict[str, int], must_sign: bool) -> list[dict[str, Any]] | None:
    """Siblings whose names start with this one's stem, as far as the caller may see them."""
    stem = access.path.name.rpartition(".")[0] or access.path.name
    try:
        folder = await access.parent.list_folder()
    except Problem:
        return None
    visibility = access.parent.make_visibility_filter()
    rows = []
    for other in folder.find_by_prefix(stem):
        if other.name == access.path.name or not visibility.passes(other):
            continue
        path = access.path.parent / other.name
        sign = links.make_signature(access.settings, path) if must_sign and not other.is_dir else ""
        rows.append(objects.make_row(codes, other, sign))
    return rows or None


async def _get_raw_url(access: PathAccess, located: Located, entry: Entry, base: str, must_sign: bool) -> str:
    """Where the bytes of a file are fetched (behaviour 5.2)."""
    driver, mount = located.driver, located.mount
    if driver.config.only_proxy or mount.storage.web_proxy or not isinstance(driver, Links):
        return links.make_proxy_url(access.settings, mount, access.path, base, must_sign)
    if entry.url:
        return entry.url
    try:
        url = (await driver.link(located.path)).url
    except NotSupported:
        return links.make_proxy_url(access.settings, mount, access.path, base, must_sign)
    return base + url if url.startswith("/") else url


async def list_subfolders(access: PathAccess) -> list[dict[str, Any]]:
    """The sub-folders, as `{name, modified}`."""
    access.require_read()
    virtual = access.find_virtual_folders()
    found = await _read_folder(access, False, bool(virtual))
    rows: list[dict[str, Any]] = []
    if found is not None:
        folder, _ = found
        rows = [
            {"name": entry.name, "modified": objects.format_time(entry.modified)}
            for entry in access.make_visibility_filter().select(folder.entries)
            if entry.is_dir
        ]
        virtual = _exclude_names(virtual, folder)
    return rows + [{"name": name, "modified": mount.storage.modified} for name, mount in virtual.items()]


async def get_link(access: PathAccess, base: str) -> Link:
    """The answer of `fs/link`: the driver's own link, or ours where it has none."""
    located = await access.locate()
    driver = located.driver
    path = links.encode_path(access.path)
    ours = Link(f"{base}/p{path}?d&sign={links.make_signature(access.settings, access.path)}")
    if driver.config.only_proxy or not isinstance(driver, Links):
        return ours
    entry = await stat_file(located)
    try:
        found = await driver.link(located.path)
    except NotSupported:
        return ours
    return Link(entry.url or found.url, found.headers, found.lifetime)


def explain_folder_failure(access: PathAccess, problem: StorageProblem) -> Problem:
    """A failure to list the folder, in the words of `fs/list`."""
    driver = access.find_mount()[0].driver
    return explain_list_failure(problem, driver is not None and driver.config.direct_lookup)


async def stat_file(located: Located) -> Entry:
    """The file's entry, with failures worded as the link routes do."""
    try:
        entry = await lookup(located)
    except NotFound as problem:
        explained = problem.with_prefix("failed to get obj") if located.driver.config.direct_lookup else problem
        raise explained.with_prefix("failed link: failed to get file") from None
    if entry.is_dir:
        raise NotAFile("failed link: not a file")
    return entry
