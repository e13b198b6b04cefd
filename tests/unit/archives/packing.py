"""Archives for tests: bytes as a source that counts what is read of it, and an archive read whole."""

from __future__ import annotations

import asyncio
import io
import tarfile
import zipfile
import zlib
from dataclasses import dataclass, field
from typing import Any

from mangrove import archives
from mangrove.archives import ArchiveLimits, Member

CPU = 15.0  # seconds of it on a loaded machine (a quiet one needs less than 2), where the work of minutes is refused
FILES = {
    "a/b.txt": b"hello\n" * 1000,
    "big.bin": bytes(range(256)) * 2000 + b"x" * 1_000_000,
    "empty": b"",
    "d/e/ü.txt": "ü".encode(),
}


class Held:
    """Bytes as the source of an archive; `taken` counts those that were read."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.size = len(content)
        self.taken = 0

    async def read(self, offset: int, length: int) -> bytes:
        self.taken += length
        return self._content[offset : offset + length]


@dataclass
class Found:
    """The content of an archive: its entries, and the bytes of those that are not refused, or the reason of their
    failure."""

    comment: str = ""
    encrypted: bool = False
    sequential: bool = False
    members: list[Member] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    failed: dict[str, Exception] = field(default_factory=dict)

    @property
    def refused(self) -> dict[str, str]:
        return {member.path: member.refused for member in self.members if member.refused}

    @property
    def paths(self) -> list[str]:
        return [member.path for member in self.members if not member.refused]


def read(name: str, content: Any, password: str = "", encoding: str = "IBM437", **limits: int) -> Found:
    """All that can be had of an archive."""
    return asyncio.run(_read(name, content, password, encoding, ArchiveLimits(**limits)))


async def _read(name: str, content: Any, password: str, encoding: str, limits: ArchiveLimits) -> Found:
    source = Held(content) if isinstance(content, bytes) else content
    async with archives.open_archive(name, source, password, encoding, limits) as archive:
        result = Found(archive.comment, archive.encrypted, archive.sequential)
        async for listed_member in archive.iter_members():
            result.members.append(listed_member)
        async for index, member, blocks in archive.iter_contents(lambda index, member: True):
            assert result.members[index] == member
            try:
                parts = [block async for block in blocks]
            except Exception as error:
                result.failed[member.path] = error
                continue
            assert all(0 < len(part) <= 1 << 20 for part in parts)
            result.files[member.path] = b"".join(parts)
    return result


def list_members(name: str, content: Any, password: str = "", encoding: str = "IBM437", **limits: int) -> list[Member]:
    """The entries alone."""

    async def members() -> list[Member]:
        source = Held(content) if isinstance(content, bytes) else content
        async with archives.open_archive(name, source, password, encoding, ArchiveLimits(**limits)) as archive:
            return [member async for member in archive.iter_members()]

    return asyncio.run(members())


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED, comment: bytes = b"") -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 5, 17, 10, 20, 30)), data, method)
        archive.comment = comment
    return content.getvalue()


def tarred(files: dict[str, bytes], mode: str = "w:", form: int = tarfile.PAX_FORMAT) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode=mode, format=form) as archive:  # type: ignore[call-overload]
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1_600_000_000
            archive.addfile(info, io.BytesIO(data))
    return content.getvalue()


def pax(said: bytes, kind: bytes = b"x") -> bytes:
    """A pax header alone."""
    info = tarfile.TarInfo("pax")
    info.type, info.size = kind, len(said)
    return info.tobuf(tarfile.USTAR_FORMAT) + said + bytes(-len(said) % 512)


class StandardZipCrypto:
    """ZipCrypto as APPNOTE writes it down, slow and plain."""

    def __init__(self, password: bytes) -> None:
        self.keys = [0x12345678, 0x23456789, 0x34567890]
        for byte in password:
            self._update(byte)

    def _update(self, byte: int) -> None:
        key0, two, three = self.keys
        key0 = zlib.crc32(bytes([byte]), key0 ^ 0xFFFFFFFF) ^ 0xFFFFFFFF
        two = ((two + (key0 & 255)) * 134775813 + 1) & 0xFFFFFFFF
        three = zlib.crc32(bytes([two >> 24]), three ^ 0xFFFFFFFF) ^ 0xFFFFFFFF
        self.keys = [key0, two, three]

    def encrypt(self, data: bytes) -> bytes:
        plain = bytearray()
        for byte in data:
            key = self.keys[2] | 2
            plain.append(byte ^ (key * (key ^ 1) >> 8) & 255)
            self._update(byte)
        return bytes(plain)
