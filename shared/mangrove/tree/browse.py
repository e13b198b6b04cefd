"""The verbs that read: list a folder, get one object, its sub-folders, its direct link."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from mangrove.drivers.base import Driver, Entry, Link, Links
from mangrove.paths import TreePath
from mangrove.problems import Denied, NotFound, NotSupported, Problem, StorageProblem
from mangrove.tree import links, mounts, objects
from mangrove.tree.access import PathAccess, look, prefixed
from mangrove.tree.listing import Folder, View, cache, explained, joined
from mangrove.tree.mounts import Mount

_OPTIONS = orjson.OPT_UTC_Z


@dataclass(frozen=True, slots=True)
class Slice:
    """Which part of a listing is wanted: `page` from 1, `per_page` 0 for everything."""

    page: int = 1
    per_page: int = 0

    def bounds(self, total: int) -> tuple[int, int]:
        """Start and stop, within 0..total."""
        if self.per_page <= 0:
            return (0, total) if self.page <= 1 else (total, total)
        start = min((max(self.page, 1) - 1) * self.per_page, total)
        return start, min(start + self.per_page, total)


async def listing(access: PathAccess, part: Slice, refresh: bool, base: str) -> dict[str, Any]:
    """The answer of `fs/list`; `base` is the address clients reach us at, for thumbnails."""
    access.require_read()
    if refresh and not access.can_write():
        raise Denied("Refresh without permission")
    virtual = access.virtual()
    found = await _folder(access, refresh, bool(virtual) or access.path in access.table.above)
    provider, total = "unknown", 0
    rows: list[bytes] = []
    if found is not None:
        folder, driver, mount = found
        view = _view(access, folder, mount, driver, base)
        provider = driver.name
        start, stop = part.bounds(len(view.visible))
        rows, grown = view.rows(start, stop)
        if grown:
            cache.weigh(folder, grown)
        total = len(view.visible)
        virtual = {name: one for name, one in virtual.items() if folder.named(name) is None}
    rows = rows + await _virtual_rows(access, virtual, part, total)
    readme, header = access.rules.texts(access.path)
    return {
        "content": joined(rows),
        "total": total + len(virtual),
        "readme": readme,
        "header": header,
        "write": access.can_write(),
        "write_content_bypass": access.rules.opens_writing(access.path),
        "provider": provider,
    }


async def _folder(access: PathAccess, refresh: bool, has_virtual: bool) -> tuple[Folder, Driver, Mount] | None:
    """The storage's listing; None where only virtual folders answer."""
    if has_virtual and not access.table.group(access.path):
        return None
    direct = False
    try:
        mount, inner = access.mount()
    except StorageProblem:
        if access.path == "/" and not access.table.mounts:
            raise StorageProblem("failed get storage: storage not found; please add a storage first") from None
        raise prefixed(StorageProblem(f"storage not found; rawPath: {access.path}"), "failed get storage") from None
    try:
        driver = await mount.running()
        direct = driver.config.direct_lookup
        return await cache.get(mount, driver, inner, refresh), driver, mount
    except StorageProblem as problem:
        if has_virtual:
            return None
        raise explained(problem, direct) from problem


def _view(access: PathAccess, folder: Folder, mount: Mount, driver: Driver, base: str) -> View:
    signed = links.signed(access.settings, access.rules, mount, access.path)
    expires = links.expiry(access.settings) if signed else -1
    key, visible = access.visible()
    thumbs = base if folder.thumbs else ""
    return folder.view(
        (access.table.version, str(access.path), key, expires, thumbs), visible, _encoder(access, expires, base)
    )


def _encoder(access: PathAccess, expires: int, base: str) -> Callable[[Entry], bytes]:
    codes = access.settings.type_codes
    token = access.settings.token
    prefix = "" if access.path == "/" else str(access.path)

    def encode(entry: Entry) -> bytes:
        path = f"{prefix}/{entry.name}"
        sign = links.sign(token, path, expires) if expires >= 0 and token and not entry.is_dir else ""
        thumb = f"{base}/d{links.encoded(path)}?type=thumb&sign={sign}" if entry.thumb and not entry.is_dir else ""
        return orjson.dumps(objects.row(codes, entry, sign, thumb), option=_OPTIONS)

    return encode


async def _virtual_rows(access: PathAccess, virtual: dict[str, Mount], part: Slice, before: int) -> list[bytes]:
    if not virtual:
        return []
    start, stop = part.bounds(before + len(virtual))
    chosen = list(virtual.items())[max(start - before, 0) : max(stop - before, 0)]
    return list(await asyncio.gather(*(_virtual_row(access, name, mount) for name, mount in chosen)))


async def _virtual_row(access: PathAccess, name: str, mount: Mount) -> bytes:
    details = await _details(access, mount) if mount.path == access.path / name else {}
    return orjson.dumps(objects.row({}, _mount_entry(name, mount)) | details, option=_OPTIONS)


async def _details(access: PathAccess, mount: Mount) -> dict[str, Any]:
    """How full a mount is, where the caller may know and the storage can say."""
    if access.caller.is_guest or access.settings.hide_storage_details:
        return {}
    space = await mounts.details(mount)
    return {"mount_details": objects.capacity(space)} if space else {}


def _mount_entry(name: str, mount: Mount) -> Entry:
    return Entry(name, 0, mount.storage.modified.timestamp(), True)


async def one(access: PathAccess, base: str) -> dict[str, Any]:
    """The answer of `fs/get`."""
    access.require_read()
    readme, header = access.rules.texts(access.path)
    tail = {"readme": readme, "header": header, "provider": "unknown", "related": None, "raw_url": ""}
    virtual = _virtual_entry(access)
    if virtual is not None:
        entry, provider = virtual
        here = access.table.by_path.get(access.path)
        details = await _details(access, here[0]) if here else {}
        return objects.row({}, entry) | tail | {"provider": provider} | details
    driver, inner, mount = await _running(access)
    try:
        entry = await look(driver, inner, mount, to_show=True)
    except StorageProblem as problem:
        raise _unseen(problem, driver) from problem
    codes = access.settings.type_codes
    signed = links.signed(access.settings, access.rules, mount, access.path)
    sign = links.signature(access.settings, access.path) if signed and not entry.is_dir else ""
    record = objects.row(
        codes, entry._replace(name=access.path.name or "root"), sign, _thumb(access, entry, sign, base)
    )
    record |= tail | {"provider": entry.provider or driver.name}
    if not entry.is_dir:
        record["raw_url"] = await raw_url(access, driver, inner, mount, entry, base, signed)
    record["related"] = await _related(access, entry, codes, signed, base)
    return record


async def _running(access: PathAccess) -> tuple[Driver, TreePath, Mount]:
    try:
        mount, inner = access.mount()
    except StorageProblem as problem:
        raise problem.with_prefix("failed get storage") from None
    return await mount.running(), inner, mount


def _unseen(problem: StorageProblem, driver: Driver) -> Problem:
    if not driver.config.direct_lookup or problem.message.startswith("storage status"):
        return problem
    return problem.with_prefix("failed to get obj")


def _thumb(access: PathAccess, entry: Entry, sign: str, base: str) -> str:
    return f"{base}/d{links.encoded(access.path)}?type=thumb&sign={sign}" if entry.thumb and not entry.is_dir else ""


def _virtual_entry(access: PathAccess) -> tuple[Entry, str] | None:
    """The root, a mount's own folder, or a folder that only leads to mounts; with its provider."""
    here = access.table.by_path.get(access.path)
    if here:
        mount = here[0]
        return _mount_entry(access.path.name or "root", mount), mount.storage.driver
    if access.path == "/" and not access.table.group(access.path):
        return Entry("root", 0, 0.0, True), "unknown"
    if access.path in access.table.above:
        name = access.path.name
        return _mount_entry(name, access.table.folders(access.path.parent)[name]), "unknown"
    return None


async def _related(
    access: PathAccess, entry: Entry, codes: dict[str, int], signed: bool, base: str
) -> list[dict[str, Any]] | None:
    """Siblings whose names start with this one's stem, as far as the caller may see them."""
    parent = access.with_path(access.path.parent)
    stem = access.path.name.rpartition(".")[0] or access.path.name
    try:
        folder, _, _ = await parent.folder()
    except Problem:
        return None
    _, visible = parent.visible()
    found = [
        other
        for other in folder.beginning(stem)
        if other.name != access.path.name and (visible is None or visible(other))
    ]
    rows = []
    for other in found:
        path = parent.path / other.name
        sign = links.signature(access.settings, path) if signed and not other.is_dir else ""
        rows.append(objects.row(codes, other, sign))
    return rows or None


async def raw_url(
    access: PathAccess, driver: Driver, inner: TreePath, mount: Mount, entry: Entry, base: str, signed: bool
) -> str:
    """Where the bytes of a file are fetched (behaviour 5.2)."""
    if driver.config.only_proxy or mount.storage.web_proxy or not isinstance(driver, Links):
        return links.proxy_url(access.settings, mount, access.path, base, signed)
    if entry.url:
        return entry.url
    try:
        url = (await driver.link(inner)).url
    except NotSupported:
        return links.proxy_url(access.settings, mount, access.path, base, signed)
    return base + url if url.startswith("/") else url


async def folders(access: PathAccess) -> list[dict[str, Any]]:
    """The sub-folders, as `{name, modified}`."""
    access.require_read()
    virtual = access.virtual()
    found = await _folder(access, False, bool(virtual) or access.path in access.table.above)
    rows: list[dict[str, Any]] = []
    if found is not None:
        folder, _, _ = found
        _, visible = access.visible()
        rows = [
            {"name": entry.name, "modified": objects.moment(entry.modified)}
            for entry in folder.entries
            if entry.is_dir and (visible is None or visible(entry))
        ]
        virtual = {name: mount for name, mount in virtual.items() if folder.named(name) is None}
    return rows + [{"name": name, "modified": mount.storage.modified} for name, mount in virtual.items()]


async def direct(access: PathAccess, base: str) -> Link:
    """The answer of `fs/link`: the driver's own link, or ours where it has none."""
    mount, inner = access.mount()
    driver = await mount.running()
    ours = f"{base}/p{links.encoded(access.path)}?d&sign={links.signature(access.settings, access.path)}"
    if driver.config.only_proxy or not isinstance(driver, Links):
        return Link(ours)
    entry = await file_at(driver, inner, mount)
    try:
        found = await driver.link(inner)
    except NotSupported:
        return Link(ours)
    return Link(entry.url or found.url, found.headers, found.lifetime)


def explained_folder(access: PathAccess, problem: StorageProblem) -> Problem:
    """A failure to list `spot`, in the words of `fs/list`."""
    driver = access.mount()[0].driver
    return explained(problem, driver is not None and driver.config.direct_lookup)


async def file_at(driver: Driver, inner: TreePath, mount: Mount) -> Entry:
    """The file's entry, with failures worded as the link routes do."""
    try:
        entry = await look(driver, inner, mount)
    except NotFound as problem:
        prefix = "failed to get obj" if driver.config.direct_lookup else ""
        inner_problem = problem.with_prefix(prefix) if prefix else problem
        raise inner_problem.with_prefix("failed link: failed to get file") from None
    if entry.is_dir:
        raise NotSupported("failed link: not a file")
    return entry
