"""Names on an SMB server, and what it does not hold."""

from __future__ import annotations

import re

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound
from mangrove.drivers.part_names import is_part
from mangrove.drivers.smb.errors import refuse_name

_REFUSED = re.compile(
    r"""[\x00-\x1f"*:<>?|\\/]|[. ]$|^(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$) *(\.|$)""",
    re.IGNORECASE,
)
LONGEST = 255  # UTF-16 units


def is_possible(name: str) -> bool:
    """Whether a server takes a name as it is: of some it would hold another one instead, without the dot at the end."""
    return _REFUSED.search(name) is None and len(name.encode("utf-16-le")) <= 2 * LONGEST


class Root:
    """The folder of a share in which a storage lies."""

    def __init__(self, path: TreePath) -> None:
        self.path = path
        self.depth = sum(map(bool, path.split("/")))

    def find(self, path: TreePath) -> str:
        """The server's name of what may exist: relative to the share, with backslashes. EntryNotFound if nothing
        can."""
        if any(is_part(name) or not is_possible(name) for name in str(path).split("/")):
            raise EntryNotFound
        return self._join(path)

    def make(self, path: TreePath) -> str:
        """The server's name of what is to have this path; StorageProblem names what the server cannot hold."""
        for name in str(path).split("/"):
            if not is_possible(name):
                raise refuse_name(name)
        return self._join(path)

    def _join(self, path: TreePath) -> str:
        return str(self.path / str(path)).strip("/").replace("/", "\\")
