"""Names as they stand in commands and listings: bytes of the storage's charset, one letter of Latin-1 for each."""

from __future__ import annotations

import codecs

from mangrove.core.paths import MAX_NAME_BYTES, TreePath
from mangrove.core.problems import StorageProblem
from mangrove.drivers.part_names import is_part

UNSENDABLE = {
    "\r": "a carriage return",
    "\n": "a line feed",
    "\0": "a NUL",
    "\xff": "a byte that Telnet takes as its own",
}
_DOTS = frozenset({"", ".", ".."})


class Names:
    """Between the names of one server and those of the tree.

    What stands in a command is text whose every letter is one byte, so that the library sends what is meant and reads
    whatever the server says.
    """

    def __init__(self, encoding: str, root: TreePath) -> None:
        self._encoding = encoding
        self._root = root
        self._decode = codecs.getdecoder(encoding)

    def encode(self, path: TreePath) -> str:
        """A path of the storage as it stands in a command; StorageProblem when no command can hold it."""
        text = self.encode_text(str(self._root / str(path)), path.name)
        for letter, meaning in UNSENDABLE.items():
            if letter in text:
                raise StorageProblem(f"{path.name!r}: FTP cannot send a name with {meaning}")
        if any(len(name) > MAX_NAME_BYTES for name in text.split("/")):
            raise StorageProblem(f"{path.name[:80]!r}…: the name is too long")
        return text

    def encode_text(self, text: str, name: str) -> str:
        """Any text as it stands in a command; `name` is what a problem calls it."""
        try:
            return text.encode(self._encoding).decode("latin-1")
        except UnicodeEncodeError:
            raise StorageProblem(f"{name!r}: the charset {self._encoding} of the storage lacks its letters") from None

    def decode(self, name: bytes) -> str | None:
        """A name of a listing; None for what is not to be seen: what is no name, an unfinished file, bytes that are
        not of the charset, and what no path can hold."""
        try:
            text = self._decode(name)[0]
        except UnicodeDecodeError:
            return None
        if text in _DOTS or "/" in text or "\\" in text or "\0" in text or is_part(text):
            return None
        return text


def join(folder: str, name: bytes) -> str:
    """The path of an entry as it stands in a command, whatever its bytes are."""
    return f"{folder.rstrip('/')}/{name.decode('latin-1')}"


def is_sendable(text: str) -> bool:
    """Whether a command can hold it."""
    return not any(letter in text for letter in UNSENDABLE)
