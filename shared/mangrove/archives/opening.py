"""The known archive formats by file name, and the opening of archives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from mangrove.archives import codecs
from mangrove.archives.base import DEFAULT_ENCODING, Archive, ArchiveLimits, Source
from mangrove.archives.codecs import Decompressor
from mangrove.core.problems import BrokenArchive

_TAR_CODECS: dict[str, Callable[[], Decompressor] | None] = {
    ".tar": None,
    ".tar.gz": codecs.make_gzip,
    ".tgz": codecs.make_gzip,
    ".tar.bz2": codecs.make_bzip2,
    ".tbz2": codecs.make_bzip2,
    ".tar.xz": codecs.make_xz,
    ".txz": codecs.make_xz,
    ".tar.zst": codecs.make_zstd,
    ".tzst": codecs.make_zstd,
}
_FILE_CODECS: dict[str, Callable[[], Decompressor]] = {
    ".gz": codecs.make_gzip,
    ".bz2": codecs.make_bzip2,
    ".xz": codecs.make_xz,
    ".zst": codecs.make_zstd,
}
EXTENSIONS = (".zip", ".7z", *_TAR_CODECS, *_FILE_CODECS)
NOT_AN_ARCHIVE = f"the name does not have the extension of an archive that can be read: {', '.join(EXTENSIONS)}"


class _OpensArchive(Archive, Protocol):
    async def open(self) -> None: ...


def _find_extension(name: str) -> str:
    """Return the longest known extension of a name; `""` without one. A name is never only an extension."""
    lower = name.lower()
    matching = [extension for extension in EXTENSIONS if lower.endswith(extension) and len(lower) > len(extension)]
    return max(matching, key=len, default="")


def is_supported(name: str) -> bool:
    """True if a file of this name is treated as an archive."""
    return bool(_find_extension(name))


def base_name(name: str) -> str:
    """Return the name without its archive extension: `x` for `x.tar.gz`."""
    return name[: len(name) - len(_find_extension(name))]


@asynccontextmanager
async def open_archive(
    name: str, source: Source, password: str = "", encoding: str = DEFAULT_ENCODING, limits: ArchiveLimits | None = None
) -> AsyncIterator[Archive]:
    """Open the archive in `source`; the extension of `name` determines its format.

    `encoding` (an IANA name) is for member names that do not declare their own. Raise WrongArchivePassword if one is
    needed and `password` is not it, BrokenArchive if the source is not such an archive.
    """
    archive = _make_archive(name, source, password, encoding, limits or ArchiveLimits())
    await archive.open()
    yield archive


def _make_archive(name: str, source: Source, password: str, encoding: str, limits: ArchiveLimits) -> _OpensArchive:
    """Return the module of a format, imported for the first archive of it."""
    extension = _find_extension(name)
    if extension == ".zip":
        from mangrove.archives.zip_archive import ZipArchive

        return ZipArchive(source, password, encoding, limits)
    if extension == ".7z":
        from mangrove.archives.seven_zip import SevenZipArchive

        return SevenZipArchive(source, password, limits)
    if extension in _TAR_CODECS:
        from mangrove.archives.tar_archive import TarArchive

        return TarArchive(source, _TAR_CODECS[extension], encoding, limits)
    if extension in _FILE_CODECS:
        from mangrove.archives.compressed_file import CompressedFile

        return CompressedFile(source, _FILE_CODECS[extension], base_name(name), limits)
    raise BrokenArchive(NOT_AN_ARCHIVE)
