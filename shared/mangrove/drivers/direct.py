"""Bytes that go straight from the client into a storage, by requests that are signed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from mangrove.core.paths import TreePath
from mangrove.drivers.base import Upload
from mangrove.drivers.power import Power


class SignedRequest(NamedTuple):
    """A request that the client sends as it is, with these headers and no others that the storage signs. `lifetime` in
    seconds."""

    method: str
    url: str
    headers: Mapping[str, str]
    lifetime: int


class StoredPart(NamedTuple):
    """A part that is there: its number (from 1), its bytes, and the receipt for `Parts.finish`."""

    number: int
    size: int
    receipt: str


@runtime_checkable
class DirectUploads(Power, Protocol):
    """A storage with the power `Parts` that takes the parts of a file, or a whole one, from clients."""

    @property
    def offers_direct_uploads(self) -> bool:
        """Whether clients are to send to it directly: it has to answer browsers of other origins."""
        ...

    async def sign_upload(self, path: TreePath, upload: Upload) -> SignedRequest:
        """The request that stores a file whole, with exactly `upload.size` bytes; EntryExists."""
        ...

    async def sign_part(self, path: TreePath, token: str, number: int, size: int, crc32: str) -> SignedRequest:
        """The request that stores a part with exactly these bytes: `size`, and their CRC-32 as S3 writes it."""
        ...

    async def list_parts(self, path: TreePath, token: str) -> Sequence[StoredPart]:
        """The parts that are there, by number; EntryNotFound: the token is not known (any more)."""
        ...

    def predict_etag(self, receipts: Sequence[str]) -> str:
        """The etag that a file of these parts gets; "" when that is not known."""
        ...
