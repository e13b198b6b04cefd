"""Failures of a WebDAV server and of the way to it, as StorageProblem."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mangrove.core.problems import (
    EntryExists,
    EntryNotFound,
    InUse,
    StorageForbidden,
    StorageFull,
    StorageProblem,
    Unreachable,
)
from mangrove.net.addresses import ForbiddenAddress
from mangrove.net.client import NETWORK_ERRORS, describe_failure

_BUSY = (408, 425, 429, 502, 503, 504)


def make_problem(status: int, name: str = "") -> StorageProblem:
    """Return the problem for the status of an answer about the file `name`."""
    prefix = f"{name[:255]}: " if name else ""
    match status:
        case 401:
            return StorageForbidden("the WebDAV server refuses the user name or password")
        case 403:
            return StorageForbidden()
        case 404 | 409 | 410:  # 409: the folder above is missing
            return EntryNotFound()
        case 412:
            return EntryExists()
        case 423:
            return InUse(f"{prefix}it is locked on the WebDAV server")
        case 413:
            return StorageProblem(f"{prefix}the WebDAV server accepts no file of this size")
        case 414:
            return StorageProblem(f"{prefix}the name is too long for the WebDAV server")
        case 507:
            return StorageFull("the WebDAV server has no space left")
    kind = Unreachable if status in _BUSY else StorageProblem
    return kind(f"{prefix}the WebDAV server answers {status}")


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise every failure of the connection as a StorageProblem, without an address or password in its message."""
    try:
        yield
    except NETWORK_ERRORS as error:
        raise Unreachable(f"the WebDAV server: {describe_failure(error)}") from error
    except TimeoutError as error:
        raise Unreachable("the WebDAV server: no answer within the time allowed") from error
    except ForbiddenAddress as error:
        raise StorageForbidden(error.message) from None
