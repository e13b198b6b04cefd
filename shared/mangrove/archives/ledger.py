"""The check of every entry: its name as text, its place among the others, its size."""

from __future__ import annotations

import re

from mangrove.archives.base import GRACE, GUESSED, Limits, Member
from mangrove.paths import DEEPEST, LONGEST_NAME, LONGEST_PATH
from mangrove.problems import ArchiveTooLarge

_DRIVE = re.compile(r"[A-Za-z]:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def judged(raw: str) -> tuple[str, str]:
    """The normalised path of an entry (`""` for the archive's own root) and why it is refused (`""`: it is not)."""
    shown = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", raw[:LONGEST_PATH])
    if shown != raw[:LONGEST_PATH]:
        return shown, "its name has a control character"
    if "\\" in raw:
        return shown, "its name has a backslash"
    if raw.startswith("/"):
        return shown, "its path is absolute"
    if _DRIVE.match(raw):
        return shown, "its path names a drive"
    if len(raw) > LONGEST_PATH:
        return shown, "its path is too long"
    segments = [part for part in raw.split("/") if part not in ("", ".")]
    if ".." in segments:
        return shown, "its path leads out of the archive's folder"
    length = len(raw) if raw.isascii() else len(raw.encode())
    if length > LONGEST_PATH:
        return shown, "its path is too long"
    if len(segments) > DEEPEST:
        return shown, "its path is too deep"
    if length > LONGEST_NAME and any(len(part.encode()) > LONGEST_NAME for part in segments):
        return shown, "its name is too long"
    return "/".join(segments), ""


def decoded(raw: bytes, encoding: str) -> str:
    """Text in the encoding an administrator chose; where nobody chose, UTF-8 where it is that, as macOS writes."""
    if encoding.upper() == GUESSED or not _is_text(encoding):
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return raw.decode("cp437")
    return raw.decode(encoding, errors="replace")


def _is_text(encoding: str) -> bool:
    try:
        return b"a".decode(encoding, errors="replace") != ""
    except (LookupError, UnicodeError):
        return False


class Ledger:
    """Sees all entries of one walk through an archive, in order; remembers 8 bytes' worth of each path."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._seen = 0
        self._files: set[int] = set()
        self._folders: set[int] = set()

    def admit(
        self, raw: str, size: int, packed: int, modified: float, is_dir: bool, refused: str = ""
    ) -> Member | None:
        """The entry as a Member; None for the archive's own root folder.

        `packed`: bytes it takes in the archive, -1 when it has none of its own.
        """
        self._seen += 1
        most = self._limits.members
        if most and (self._seen > most or len(self._folders) > 2 * most):
            raise ArchiveTooLarge(f"the archive has more than {most} entries")
        path, reason = judged(raw)
        if not path and not reason:
            if is_dir:
                return None
            path, reason = "", "it has no name"
        reason = reason or refused or self._size(size, packed) or self._place(path, is_dir)
        return Member(path, 0 if is_dir else size, modified, is_dir, reason)

    def _size(self, size: int, packed: int) -> str:
        limits = self._limits
        if limits.size and size > limits.size:
            return "it is too large"
        if limits.ratio and packed >= 0 and size > max(GRACE, limits.ratio * packed):
            return "it is packed too tightly to be honest"
        return ""

    def _place(self, path: str, is_dir: bool) -> str:
        key = hash(path)
        if key in self._files or (key in self._folders and not is_dir):
            return "an earlier entry has the same path"
        above = []
        cut = path.rfind("/")
        while cut > 0:
            one = hash(path[:cut])
            if one in self._folders:
                break
            if one in self._files:
                return "an earlier file stands where its folder would be"
            above.append(one)
            cut = path.rfind("/", 0, cut)
        self._folders.update(above)
        (self._folders if is_dir else self._files).add(key)
        return ""
