"""The bytes of a gzip-compressed tar archive, made while it is stored. It may be cut between any two blocks."""

from __future__ import annotations

import tarfile
import zlib

GZIP, LEVEL = 31, 6
FILE_MODE, FOLDER_MODE = 0o644, 0o755
ERROR_SUFFIX = ".error.txt"


class TarWriter:
    """An archive of the PAX format, entry by entry. The size of a file is in its header, so it has to be known.

    Calls return compressed bytes, often none. After `end_member`, another process goes on with a new writer: a gzip
    file may consist of several members.
    """

    def __init__(self) -> None:
        self._codec = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP)

    def add_folder(self, path: str, modified: float) -> bytes:
        """Add a folder."""
        return self._codec.compress(_format_header(path, modified, 0, is_dir=True))

    def begin_file(self, path: str, modified: float, size: int) -> bytes:
        """Begin a file."""
        return self._codec.compress(_format_header(path, modified, size))

    def add_block(self, block: bytes) -> bytes:
        """Add a block of the file."""
        return self._codec.compress(block)

    def end_file(self, size: int) -> bytes:
        """End a file of `size` bytes."""
        return self._codec.compress(bytes(-size % tarfile.BLOCKSIZE))

    def add_file(self, path: str, modified: float, content: bytes) -> bytes:
        """Add a file that is in memory."""
        size = len(content)
        return self.begin_file(path, modified, size) + self.add_block(content) + self.end_file(size)

    def add_error(self, path: str, modified: float, text: str) -> bytes:
        """Add the text that stands for a file."""
        return self.add_file(path + ERROR_SUFFIX, modified, f"{text}\n".encode(errors="replace"))

    def end_member(self) -> bytes:
        """End the gzip member, and begin another one."""
        rest, self._codec = self._codec.flush(), zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP)
        return rest

    def finish(self) -> bytes:
        """Return the end of the archive."""
        return self._codec.compress(bytes(2 * tarfile.BLOCKSIZE))


def _format_header(path: str, modified: float, size: int, *, is_dir: bool = False) -> bytes:
    info = tarfile.TarInfo(path.replace("\\", "_").strip("/"))
    info.size, info.mtime = size, int(modified)
    info.type = tarfile.DIRTYPE if is_dir else tarfile.REGTYPE
    info.mode = FOLDER_MODE if is_dir else FILE_MODE
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "replace")
