"""Downloads of shared files: the access of the visitor, and the source of the bytes."""

from __future__ import annotations

from dataclasses import dataclass

from mangrove.core.paths import TreePath
from mangrove.core.problems import AccessDenied
from mangrove.identity.rights import Right
from mangrove.tree.access import PathAccess
from mangrove.tree.operations.archives import require_archive_rights
from mangrove.tree.operations.downloads import Download
from mangrove.tree.sharing import visits
from mangrove.tree.sharing.shared_path import PREFIX


@dataclass(frozen=True, slots=True)
class SharedDownload:
    """A file of a share link that its visitor may download."""

    file: Download
    access: PathAccess

    @property
    def must_proxy(self) -> bool:
        """True if the bytes pass through the service: by the setting, or because the storage has no address."""
        return self.file.settings.share_force_proxy or self.file.must_proxy

    def require_preview(self) -> None:
        """Raise AccessDenied unless the setting allows previews for visitors."""
        if not self.file.settings.share_preview:
            raise AccessDenied("sharing previews are not allowed")


async def authorize(raw: str, password: str, source: str, right: Right = Right.READ) -> SharedDownload:
    """Return the file at `<id>[/path]` of a share link, on a route that declares `right`.

    Raise the problems of `visits.open_shared`. The caller hides the paths in messages with `visits.hide_paths`.
    """
    access = await open_shared(raw, password, source, right)
    if right is Right.READ_ARCHIVES:
        require_archive_rights(access)
    share = access.share
    assert share is not None
    name = share.find_inner(access.path).name or share.name
    return SharedDownload(Download(TreePath("/") / name, await access.locate(), access.settings), access)


async def open_shared(raw: str, password: str, source: str, right: Right = Right.READ) -> PathAccess:
    """Return the access of a visitor to `<id>[/path]` of a share link whose content visitors may read.

    The root of a share of several files and folders is not in the tree: its `share.roots` are the accesses to them.
    Raise ShareNotFound, ShareEnded, NotReadable, TooMany, EntryNotFound or AccessDenied.
    """
    return require_content(await visits.open_shared(PREFIX / raw, password, right, source))


def require_content(access: PathAccess) -> PathAccess:
    """Return the access of a visitor. Raise AccessDenied or NotReadable unless visitors may read there."""
    assert access.share is not None
    if not access.share.shows_content:
        raise AccessDenied
    return access.require_read()
