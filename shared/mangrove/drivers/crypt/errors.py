"""Failures of the ciphers, as problems that name the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nacl.exceptions import CryptoError

from mangrove.core.problems import StorageProblem


@contextmanager
def translate_errors(name: str) -> Iterator[None]:
    """Return the StorageProblem for bytes of the file `name` that were not encrypted with these keys."""
    try:
        yield
    except CryptoError:
        raise StorageProblem(f"{name} is damaged, or was encrypted with another password or salt") from None


def refuse_ended(name: str) -> None:
    """The remote sent fewer or more bytes of the file than its size."""
    raise StorageProblem(f"{name} does not have the size that its storage shows")
