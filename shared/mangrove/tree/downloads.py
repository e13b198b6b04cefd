"""Who may download: a file's signature, and whether its bytes pass through us (behaviour 9.2–9.4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mangrove.drivers.base import Driver, Entry, Link, Links
from mangrove.paths import TreePath
from mangrove.problems import Denied, NotSupported, StorageProblem
from mangrove.site import snapshot
from mangrove.site.values import Settings
from mangrove.tree import browse, links, mounts, rules
from mangrove.tree.mounts import Mount


@dataclass(frozen=True, slots=True)
class Download:
    """A file that may be fetched: its absolute path, and where that is in its storage."""

    path: TreePath
    driver: Driver
    inner: TreePath
    mount: Mount
    settings: Settings

    @property
    def extension(self) -> str:
        return self.path.name.rpartition(".")[2].lower()

    @property
    def must_proxy(self) -> bool:
        """Whether the storage gives no address of its own, or shall not give it."""
        driver = self.driver
        return (
            driver.config.only_proxy
            or not isinstance(driver, Links)
            or self.mount.storage.web_proxy
            or self.extension in self.settings.proxy_types
        )

    def may_proxy(self) -> None:
        """Denied when bytes of this file are not to pass through us."""
        wanted = self.mount.storage.webdav_policy == "use_proxy_url" or self.extension in self.settings.text_types
        if not (wanted or self.must_proxy):
            raise Denied("proxy not allowed")

    async def entry(self) -> Entry:
        """What is known of the file; NotFound or NotSupported in the words of a link."""
        return await browse.file_at(self.driver, self.inner, self.mount)

    async def link(self) -> Link | None:
        """The storage's own address that a browser can follow; None when there is none."""
        entry = await self.entry()
        if not isinstance(self.driver, Links):
            return None
        try:
            found = await self.driver.link(self.inner)
        except NotSupported:
            return None
        return None if found.headers else Link(entry.url or found.url)

    def proxied_elsewhere(self) -> str | None:
        """The address at the storage's download proxy, when it has one."""
        if not self.mount.storage.down_proxy_url.strip():
            return None
        return links.proxy_url(self.settings, self.mount, self.path, "", True)


async def admitted(raw: str, signature: str, key_of: Callable[[str], str] = str) -> Download:
    """The file at an absolute path, its signature checked before anything is looked up.

    `key_of` makes the key of the signature out of the permanent token.
    """
    path = TreePath(raw)
    table = await mounts.ready()
    now = snapshot.current()
    key = key_of(now.settings.token)
    try:
        mount, inner = mounts.pick(table, path)
    except StorageProblem:
        if now.settings.sign_all:
            links.verify(key, path, signature)
        raise
    if links.signed(now.settings, rules.of(now), mount, path):
        links.verify(key, path, signature)
    return Download(path, await mount.running(), inner, mount, now.settings)
