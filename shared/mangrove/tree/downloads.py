"""Who may download: a file's signature, and whether its bytes pass through us (behaviour 9.2–9.4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mangrove.drivers.base import Entry, Link, Links
from mangrove.paths import TreePath
from mangrove.problems import Denied, NotSupported, StorageProblem
from mangrove.site import snapshot
from mangrove.site.values import Settings
from mangrove.tree import browse, links, mounts
from mangrove.tree.mounts import Located, select_mount
from mangrove.tree.rules import get_rules


@dataclass(frozen=True, slots=True)
class Download:
    """A file that may be fetched: its absolute path, and the same inside its storage."""

    path: TreePath
    located: Located
    settings: Settings

    @property
    def extension(self) -> str:
        return self.path.name.rpartition(".")[2].lower()

    @property
    def must_proxy(self) -> bool:
        """Whether the storage has no address of its own for it, or none that may be given out."""
        driver = self.located.driver
        return (
            driver.config.only_proxy
            or not isinstance(driver, Links)
            or self.located.mount.storage.web_proxy
            or self.extension in self.settings.proxy_types
        )

    def require_proxy(self) -> None:
        """Denied when bytes of this file are not to pass through us."""
        wanted = (
            self.located.mount.storage.webdav_policy == "use_proxy_url" or self.extension in self.settings.text_types
        )
        if not (wanted or self.must_proxy):
            raise Denied("proxy not allowed")

    async def stat(self) -> Entry:
        """The file's entry; NotFound or NotSupported in the words of a link."""
        return await browse.stat_file(self.located)

    async def get_link(self) -> Link | None:
        """The storage's own address that a browser can follow; None when there is none."""
        entry = await self.stat()
        driver = self.located.driver
        if not isinstance(driver, Links):
            return None
        try:
            found = await driver.link(self.located.path)
        except NotSupported:
            return None
        return None if found.headers else Link(entry.url or found.url)

    def get_down_proxy_url(self) -> str | None:
        """The address at the storage's download proxy, when it has one."""
        mount = self.located.mount
        if not mount.storage.down_proxy_url.strip():
            return None
        return links.make_proxy_url(self.settings, mount, self.path, "", True)


async def authorize_download(raw: str, signature: str, make_key: Callable[[str], str] = str) -> Download:
    """The file at an absolute path, its signature checked before anything is looked up.

    `make_key` makes the key of the signature out of the permanent token.
    """
    path = TreePath(raw)
    table = await mounts.ready()
    now = snapshot.current()
    key = make_key(now.settings.token)
    try:
        mount, inner = select_mount(table, path)
    except StorageProblem:
        if now.settings.sign_all:
            links.verify(key, path, signature)
        raise
    if links.requires_signature(now.settings, get_rules(now), mount, path):
        links.verify(key, path, signature)
    return Download(path, Located(await mount.get_driver(), inner, mount), now.settings)
