"""Checksums of sent and received bytes: the kind that the server verifies, and whether its answers prove anything."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

MD5 = re.compile("[0-9a-f]{32}")
SUMS = ("SHA256", "SHA1", "CRC64NVME", "CRC32C", "CRC32")

Content = bytes | bytearray


class Sums(NamedTuple):
    """Checksums of some bytes: MD5 in hex, and CRC-32 as S3 writes it."""

    md5: str
    crc32: str

    @classmethod
    def of(cls, content: Content) -> Sums:
        """Return the checksums. It takes 20 ms for a part of 8 MiB."""
        crc32 = zlib.crc32(content).to_bytes(4, "big")
        return cls(hashlib.md5(content, usedforsecurity=False).hexdigest(), base64.b64encode(crc32).decode())


class ChecksumAlgorithm(Enum):
    """A checksum that a request carries for the server to verify; the best one first."""

    CRC32 = "crc32"
    MD5 = "md5"
    NONE = "none"

    def make_arguments(self, sums: Sums) -> dict[str, str]:
        """The checksum as arguments of boto3: a plain header, never a trailer behind the body."""
        if self is ChecksumAlgorithm.CRC32:
            return {"ChecksumAlgorithm": "CRC32", "ChecksumCRC32": sums.crc32}
        return (
            {"ContentMD5": base64.b64encode(bytes.fromhex(sums.md5)).decode()} if self is ChecksumAlgorithm.MD5 else {}
        )


class Integrity:
    """The known facts of a server: the checksum that it verifies, and whether everything it stored was proven so
    far.
    """

    def __init__(self) -> None:
        self.kind = ChecksumAlgorithm.CRC32
        self._proven: bool | None = None

    @property
    def proven(self) -> bool:
        """True if there was an answer, and every answer so far proved the stored bytes."""
        return bool(self._proven)

    def refuse(self, kind: ChecksumAlgorithm) -> None:
        """Record that the server does not accept a checksum of this kind."""
        if kind is self.kind:
            self.kind = ChecksumAlgorithm.MD5 if kind is ChecksumAlgorithm.CRC32 else ChecksumAlgorithm.NONE

    def compare(self, sums: Sums, kind: ChecksumAlgorithm, answer: Mapping[str, Any]) -> bool:
        """True if the answer to a put or a part matches the bytes that were sent.

        Whether it proves them is remembered.
        """
        stored = parse_checksums(answer)
        if kind is ChecksumAlgorithm.CRC32 and "crc32" not in stored:
            self.refuse(kind)  # a server that does not know the header verifies nothing
        if stored.get("crc32", sums.crc32) != sums.crc32 or stored.get("md5", sums.md5) != sums.md5:
            return False
        self._note("crc32" in stored or "md5" in stored)
        return True

    def note_copy(self) -> None:
        """Record a copy by the server, in which the bytes were not transferred."""
        self._note(True)

    def _note(self, is_proof: bool) -> None:
        self._proven = is_proof if self._proven is None else self._proven and is_proof


def parse_checksums(answer: Mapping[str, Any]) -> dict[str, str]:
    """Return the checksums of the whole object in an answer, by algorithm; composite ones are left out."""
    checksums: dict[str, str] = {}
    if answer.get("ChecksumType", "FULL_OBJECT") == "FULL_OBJECT":
        known = {name.lower(): answer.get(f"Checksum{name}", "") for name in SUMS}
        checksums = {name: value for name, value in known.items() if value and "-" not in value}
    etag = answer.get("ETag", "").strip('"')
    plain = answer.get("ServerSideEncryption", "AES256") == "AES256" and "SSECustomerAlgorithm" not in answer
    return checksums | {"md5": etag} if plain and MD5.fullmatch(etag) else checksums
