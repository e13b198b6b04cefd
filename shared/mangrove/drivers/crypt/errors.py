"""Failures of the ciphers, as problems that name the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nacl.exceptions import CryptoError

from mangrove.core.problems import StorageProblem


@contextmanager
def translate_errors(name: str) -> Iterator[None]:
    """StorageProblem for bytes of the file `name` that are not what was encrypted with these keys."""
    try:
        yield
    except CryptoError:
        raise StorageProblem(f"{name} is damaged, or was encrypted with another password or salt") from None


def refuse_ended(name: str) -> None:
    """The remote sent less, or more, of the file than it has."""
    raise StorageProblem(f"{name} does not have the size that its storage shows")
