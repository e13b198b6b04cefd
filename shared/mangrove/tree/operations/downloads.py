"""Who may download: a file's signature, and whether its bytes pass through us (behaviour 9.2–9.4)."""

from __future__ import annotations

from dataclasses import dataclass

from mangrove import configuration
from mangrove.configuration import users
from mangrove.configuration.snapshot import Snapshot
from mangrove.configuration.values import Settings
from mangrove.core.paths import TreePath
from mangrove.core.problems import AccessDenied, NotSupported, StorageProblem
from mangrove.drivers.base import Entry, Link
from mangrove.tree import mounts
from mangrove.tree.access import needs_signature
from mangrove.tree.listing import browse
from mangrove.tree.listing.listing import listings
from mangrove.tree.mounts import MountTable, StoragePath, select_mount
from mangrove.tree.operations import links
from mangrove.tree.operations.links import Purpose
from mangrove.tree.rules import Rules, get_rules


@dataclass(frozen=True, slots=True)
class Download:
    """A file that may be fetched: its absolute path, the same inside its storage, and the signature it was asked for
    with, "" where none was needed."""

    path: TreePath
    storage_path: StoragePath
    settings: Settings
    signature: str = ""

    @property
    def extension(self) -> str:
        return self.path.name.rpartition(".")[2].lower()

    @property
    def must_proxy(self) -> bool:
        """Whether the storage has no address of its own for it, or none that may be given out."""
        driver = self.storage_path.driver
        return (
            driver.config.only_proxy
            or not driver.capabilities.link
            or self.storage_path.mount.storage.web_proxy
            or self.extension in self.settings.proxy_types
        )

    async def require_proxy(self) -> None:
        """AccessDenied when bytes of this file are not to pass through us, and it can be had elsewhere."""
        wanted = (
            self.storage_path.mount.storage.webdav_policy == "use_proxy_url"
            or self.extension in self.settings.text_types
        )
        if not (wanted or self.must_proxy or await self.get_link() is None):
            raise AccessDenied("proxy not allowed")

    async def stat(self, anew: bool = False) -> Entry:
        """The file's entry, with `anew` one that no cache knew; EntryNotFound or NotSupported in the words of a
        link."""
        if anew:
            listings().forget(self.storage_path.mount.storage.id, self.storage_path.path.parent)
        return await browse.stat_file(self.storage_path)

    async def get_link(self) -> Link | None:
        """The storage's own address that a browser can follow; None when there is none."""
        entry = await self.stat()
        driver = self.storage_path.driver
        if not driver.capabilities.link:
            return None
        try:
            found = await driver.link(self.storage_path.path)
        except NotSupported:
            return None
        if found.headers:
            return None
        return Link(entry.url) if entry.url else Link(found.url, lifetime=found.lifetime)

    def get_down_proxy_url(self) -> str | None:
        """The address at the storage's download proxy, when it has one."""
        mount = self.storage_path.mount
        if not mount.storage.down_proxy_url.strip():
            return None
        signature = self.signature or links.make_signer(self.settings, 0).sign(self.path)
        return links.make_proxy_url(mount, self.path, "", signature, True)


async def authorize_download(raw: str, signature: str, purpose: Purpose = Purpose.FILE) -> Download:
    """The file at an absolute path, its signature checked before anything is looked up."""
    path = TreePath(raw)
    table = await mounts.ready()
    now = configuration.cached()
    rules = await get_rules(now)
    try:
        mount, inner = select_mount(table, path)
    except StorageProblem:
        if now.settings.sign_all:
            await _check_signature(now, rules, table, path, signature, purpose)
        raise
    must_sign = needs_signature(now.settings, rules, table, path)
    if must_sign:
        await _check_signature(now, rules, table, path, signature, purpose)
    return Download(
        path, StoragePath(await mount.get_driver(), inner, mount), now.settings, signature if must_sign else ""
    )


async def _check_signature(
    now: Snapshot, rules: Rules, table: MountTable, path: TreePath, signature: str, purpose: Purpose
) -> None:
    """Unauthorized with the reason unless the signature is good, and the user it was made for may still read."""
    owner = links.verify(now.settings, path, signature, purpose)
    if owner is not None and now.settings.link_follows_user:
        user = await users.find_by_id(owner)
        links.require_reader(user, rules, path, table.find_places(path), purpose)
