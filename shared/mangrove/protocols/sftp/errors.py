"""Failures of the tree in the words of SFTP (draft-ietf-secsh-filexfer-02, section 7; later codes become `failure`)."""

from __future__ import annotations

from collections.abc import Callable

from asyncssh.sftp import (
    SFTPError,
    SFTPFailure,
    SFTPFileAlreadyExists,
    SFTPNoSuchFile,
    SFTPOpUnsupported,
    SFTPPermissionDenied,
)

from mangrove.configuration.masking import mask_private
from mangrove.core.problems import (
    AccessDenied,
    EntryExists,
    EntryNotFound,
    NameConflict,
    NotMounted,
    NotSupported,
    Problem,
    ResourceNotFound,
    StorageForbidden,
    Unauthorized,
)

_KINDS: tuple[tuple[tuple[type[Problem], ...], Callable[[str], SFTPError]], ...] = (
    ((NameConflict, EntryExists), SFTPFileAlreadyExists),
    ((EntryNotFound, NotMounted, ResourceNotFound), SFTPNoSuchFile),
    ((AccessDenied, Unauthorized, StorageForbidden), SFTPPermissionDenied),
    ((NotSupported,), SFTPOpUnsupported),
)


def explain(problem: Problem) -> SFTPError:
    """The status that a client gets for a problem."""
    make = next((make for problems, make in _KINDS if isinstance(problem, problems)), SFTPFailure)
    return make(mask_private(problem.message))
