"""The validation of every entry of an archive: its name, its path among the others, its size."""

from __future__ import annotations

import re

from mangrove.archives.base import DEFAULT_ENCODING, RATIO_EXEMPT, ArchiveLimits, Member
from mangrove.core.paths import MAX_NAME_BYTES, MAX_PATH_BYTES, MAX_PATH_DEPTH
from mangrove.core.problems import ArchiveTooLarge

_DRIVE = re.compile(r"[A-Za-z]:")
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def normalize_path(raw: str) -> tuple[str, str]:
    """Return the normalised path of an entry (`""` for the archive's root) and the reason why it is refused (`""`
    if it is not).
    """
    shown = _CONTROL_CHARACTER.sub("\N{REPLACEMENT CHARACTER}", raw[:MAX_PATH_BYTES])
    if shown != raw[:MAX_PATH_BYTES]:
        return shown, "its name has a control character"
    if "\\" in raw:
        return shown, "its name has a backslash"
    if raw.startswith("/"):
        return shown, "its path is absolute"
    if _DRIVE.match(raw):
        return shown, "its path names a drive"
    if len(raw) > MAX_PATH_BYTES:
        return shown, "its path is too long"
    segments = [part for part in raw.split("/") if part not in ("", ".")]
    if ".." in segments:
        return shown, "its path leads out of the archive's folder"
    length = len(raw) if raw.isascii() else len(raw.encode())
    if length > MAX_PATH_BYTES:
        return shown, "its path is too long"
    if len(segments) > MAX_PATH_DEPTH:
        return shown, "its path is too deep"
    if length > MAX_NAME_BYTES and any(len(part.encode()) > MAX_NAME_BYTES for part in segments):
        return shown, "its name is too long"
    return "/".join(segments), ""


def decode_name(raw: bytes, encoding: str) -> str:
    """Return a name as text.

    With the default or an unknown encoding: UTF-8 if the bytes are valid (macOS writes it without the flag), otherwise
    code page 437.
    """
    if encoding.upper() == DEFAULT_ENCODING or not _is_text_encoding(encoding):
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return raw.decode("cp437")
    return raw.decode(encoding, errors="replace")


def _is_text_encoding(encoding: str) -> bool:
    try:
        return b"a".decode(encoding, errors="replace") != ""
    except (LookupError, UnicodeError):
        return False


class EntryValidator:
    """A validator of the entries of one iteration over an archive, in order. It keeps a hash of each path."""

    def __init__(self, limits: ArchiveLimits) -> None:
        self._limits = limits
        self._count = 0
        self._files: set[int] = set()
        self._folders: set[int] = set()

    def validate(
        self, raw: str, size: int | None, packed: int | None, modified: float, is_dir: bool, refused: str = ""
    ) -> Member | None:
        """Return the entry as a Member; None for the archive's root folder. Raise ArchiveTooLarge beyond the limit of
        entries.

        `packed`: its bytes in the archive, None if they are shared. `refused`: a reason that is known already.
        """
        self._count += 1
        limit = self._limits.members
        if limit and (self._count > limit or len(self._folders) > 2 * limit):
            raise ArchiveTooLarge(f"the archive has more than {limit} entries")
        path, reason = normalize_path(raw)
        if not path and not reason:
            if is_dir:
                return None
            path, reason = "", "it has no name"
        reason = reason or refused or self._check_size(size, packed) or self._check_path(path, is_dir)
        return Member(path, 0 if is_dir else size, modified, is_dir, reason)

    def _check_size(self, size: int | None, packed: int | None) -> str:
        limits = self._limits
        if size is None:
            return ""
        if limits.size and size > limits.size:
            return "it is too large"
        if limits.ratio and packed is not None and size > max(RATIO_EXEMPT, limits.ratio * packed):
            return f"it unpacks to more than {limits.ratio} times its size"
        return ""

    def _check_path(self, path: str, is_dir: bool) -> str:
        key = hash(path)
        if key in self._files or (key in self._folders and not is_dir):
            return "an earlier entry has the same path"
        parents = []
        end = path.rfind("/")
        while end > 0:
            parent = hash(path[:end])
            if parent in self._folders:
                break
            if parent in self._files:
                return "an earlier file has the path of its folder"
            parents.append(parent)
            end = path.rfind("/", 0, end)
        self._folders.update(parents)
        (self._folders if is_dir else self._files).add(key)
        return ""
