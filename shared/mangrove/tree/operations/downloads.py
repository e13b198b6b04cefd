"""Downloads of files: the signature of the link, and the source of the bytes."""

from __future__ import annotations

from dataclasses import dataclass

from mangrove.configuration import users
from mangrove.configuration.values import Settings
from mangrove.core.paths import TreePath
from mangrove.core.problems import AccessDenied, NotSupported, StorageProblem
from mangrove.drivers.base import Entry, Link
from mangrove.tree.access import TreeState
from mangrove.tree.listing import objects
from mangrove.tree.listing.listing import listings
from mangrove.tree.mounts import StoragePath, select_mount
from mangrove.tree.operations import links
from mangrove.tree.operations.links import Purpose
from mangrove.tree.trash.versions import find_version


@dataclass(frozen=True, slots=True)
class Download:
    """A file that may be downloaded."""

    path: TreePath  # in the tree
    storage_path: StoragePath
    settings: Settings
    signature: str = ""  # of the request, "" if none is required

    @property
    def extension(self) -> str:
        return self.path.name.rpartition(".")[2].lower()

    @property
    def must_proxy(self) -> bool:
        """True if the storage has no link to the file, or none that clients may get."""
        driver = self.storage_path.driver
        return (
            driver.config.only_proxy
            or not driver.capabilities.link
            or self.storage_path.mount.storage.web_proxy
            or self.extension in self.settings.proxy_types
        )

    async def require_proxy(self) -> None:
        """Raise AccessDenied if the service must not pass on the bytes, and the client can get them elsewhere."""
        is_proxy_set = self.storage_path.mount.storage.webdav_policy == "use_proxy_url"
        may_proxy = is_proxy_set or self.extension in self.settings.text_types
        if not (may_proxy or self.must_proxy or await self.get_link() is None):
            raise AccessDenied("proxy not allowed")

    async def stat(self, anew: bool = False) -> Entry:
        """Return the file's entry, with `anew` without any cache. Problems have the words of a link."""
        if anew:
            listings().forget(self.storage_path.mount.storage.id, self.storage_path.path.parent)
        return await objects.stat_file(self.storage_path)

    async def get_link(self) -> Link | None:
        """Return the storage's own link if a browser can follow it, otherwise None."""
        entry = await self.stat()
        driver = self.storage_path.driver
        if not driver.capabilities.link:
            return None
        try:
            link = await driver.link(self.storage_path.path)
        except NotSupported:
            return None
        if link.headers:
            return None
        return Link(entry.url) if entry.url else Link(link.url, lifetime=link.lifetime)

    def get_down_proxy_url(self) -> str | None:
        """Return the link to the storage's download proxy, if it has one."""
        mount = self.storage_path.mount
        if not mount.storage.down_proxy_url.strip():
            return None
        signature = self.signature or links.make_signer(self.settings, 0).sign(self.path)
        return links.make_proxy_url(mount, self.path, "", signature, True)


async def authorize_download(raw: str, signature: str, purpose: Purpose = Purpose.FILE, version: str = "") -> Download:
    """Return the file at an absolute path, or a version of it. Its signature is checked before any lookup."""
    path = TreePath(raw)
    tree = await TreeState.read()
    try:
        mount, inner = select_mount(tree.table, path)
    except StorageProblem:
        if tree.settings.sign_all:
            await _check_signature(tree, path, signature, purpose)
        raise
    must_sign = tree.needs_signature(path)
    if must_sign:
        await _check_signature(tree, path, signature, purpose)
    storage_path = StoragePath(await mount.get_driver(), inner, mount)
    if version:
        storage_path = await find_version(storage_path, version)
    return Download(path, storage_path, tree.settings, signature if must_sign else "")


async def _check_signature(tree: TreeState, path: TreePath, signature: str, purpose: Purpose) -> None:
    """Raise Unauthorized unless the signature is valid, and the user for whom it was made may still read."""
    owner = links.verify(tree.settings, path, signature, purpose)
    if owner is not None and tree.settings.link_follows_user:
        user = await users.find_by_id(owner)
        links.require_reader(user, tree.rules, path, tree.table.find_aliased_paths(path), purpose)
