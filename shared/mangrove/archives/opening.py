"""Which archives are known, and the way into one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from mangrove.archives import codecs
from mangrove.archives.base import GUESSED, Archive, Limits, Source
from mangrove.archives.codecs import Decompressor
from mangrove.archives.sevenfiles import SevenArchive
from mangrove.archives.singles import SingleFile
from mangrove.archives.tarfiles import TarArchive
from mangrove.archives.zipfiles import ZipArchive
from mangrove.problems import BrokenArchive

_TARS: dict[str, Callable[[], Decompressor] | None] = {
    ".tar": None,
    ".tar.gz": codecs.gzip,
    ".tgz": codecs.gzip,
    ".tar.bz2": codecs.bzip2,
    ".tbz2": codecs.bzip2,
    ".tar.xz": codecs.xz,
    ".txz": codecs.xz,
    ".tar.zst": codecs.zstd,
    ".tzst": codecs.zstd,
}
_SINGLES: dict[str, Callable[[], Decompressor]] = {
    ".gz": codecs.gzip,
    ".bz2": codecs.bzip2,
    ".xz": codecs.xz,
    ".zst": codecs.zstd,
}
EXTENSIONS = (".zip", ".7z", *_TARS, *_SINGLES)
NO_EXTENSION = "the obj does not have an extension."


def _extension(name: str) -> str:
    """The longest known extension of a name; `""` without one. A name is never all extension."""
    lower = name.lower()
    found = [one for one in EXTENSIONS if lower.endswith(one) and len(lower) > len(one)]
    return max(found, key=len, default="")


def supported(name: str) -> bool:
    """Whether a file of this name is taken for an archive."""
    return bool(_extension(name))


def base_name(name: str) -> str:
    """The name without its archive extension: `x` for `x.tar.gz`."""
    return name[: len(name) - len(_extension(name))]


@asynccontextmanager
async def opened(
    name: str, source: Source, password: str = "", encoding: str = GUESSED, limits: Limits | None = None
) -> AsyncIterator[Archive]:
    """The archive in `source`, whose kind its name tells.

    `encoding` (an IANA name) is that of names which do not say their own. Raises WrongArchivePassword when one is
    needed and `password` is not it, BrokenArchive when there is no such archive.
    """
    archive = _made(name, source, password, encoding, limits or Limits())
    await archive.open()
    yield archive


def _made(
    name: str, source: Source, password: str, encoding: str, limits: Limits
) -> ZipArchive | SevenArchive | TarArchive | SingleFile:
    extension = _extension(name)
    if extension == ".zip":
        return ZipArchive(source, password, encoding, limits)
    if extension == ".7z":
        return SevenArchive(source, password, limits)
    if extension in _TARS:
        return TarArchive(source, _TARS[extension], encoding, limits)
    if extension in _SINGLES:
        return SingleFile(source, _SINGLES[extension], base_name(name), limits)
    raise BrokenArchive(NO_EXTENSION)
