"""The entries of a link to an archive, stored in staging until the link expires.

The address does not contain them, because it cannot have thousands of names and must not have a password.
"""

from __future__ import annotations

import re
import time
from base64 import b64decode, b64encode
from dataclasses import dataclass, field

from mangrove.core.chunked import stream
from mangrove.core.codec import DecodeError, dump, parse
from mangrove.core.problems import EntryNotFound, ResourceNotFound
from mangrove.drivers.base import Upload
from mangrove.records.store.encryption import decrypt, encrypt
from mangrove.tasks.core import files, staging
from mangrove.tasks.core.staging import StagedPath

SELECTION = "selection"  # the name in staging
MAX_SELECTION_BYTES = 64 << 20
_ID = re.compile(r"[A-Za-z0-9_-]{21}")
NO_RECORD_KEY = b""  # the context of the encrypted password; no attribute of a record has the same


@dataclass(kw_only=True)
class FolderSelection:
    """Some entries of a folder."""

    names: list[str] = field(default_factory=list)
    """All entries of the folder if there are none."""
    password: str = ""
    """The password of the folder, encrypted."""
    archive: str = ""
    """The name of the archive that a task makes in staging; "" for an archive that is made while it is sent."""
    share: int = 0
    """The number of the share link through which a visitor has the archive; 0 for none."""

    @classmethod
    def make(cls, names: list[str], password: str, archive: str = "") -> FolderSelection:
        """Return a selection with its password encrypted."""
        encrypted = b64encode(encrypt(password, NO_RECORD_KEY)).decode() if password else ""
        return cls(names=names, password=encrypted, archive=archive)

    def read_password(self) -> str:
        """Return the password of the folder."""
        return decrypt(b64decode(self.password), NO_RECORD_KEY) if self.password else ""


async def store_selection(id: str, selection: FolderSelection) -> None:
    """Store a selection under a new id, or that of the task that packs it."""
    content = dump(selection)
    await staging.store(id, SELECTION, stream(content), Upload(len(content), time.time()))


async def load_selection(id: str) -> FolderSelection:
    """Return a stored selection. Raise ResourceNotFound if it does not exist any more."""
    if not _ID.fullmatch(id):
        raise ResourceNotFound("the link has ended")
    path = StagedPath(await staging.driver(), staging.get_path(id, SELECTION))
    try:
        return parse(FolderSelection, await files.read_whole(path, MAX_SELECTION_BYTES))
    except (EntryNotFound, DecodeError):
        raise ResourceNotFound("the link has ended") from None
