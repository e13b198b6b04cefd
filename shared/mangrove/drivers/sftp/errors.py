"""Errors of asyncssh and of SSH servers as StorageProblem."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import asyncssh

from mangrove.core.problems import (
    EntryExists,
    EntryNotFound,
    NotAFile,
    NotAFolder,
    NotSupported,
    StorageForbidden,
    StorageFull,
    StorageProblem,
    Unreachable,
)

_KINDS: tuple[tuple[tuple[type[asyncssh.SFTPError], ...], type[StorageProblem]], ...] = (
    ((asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath), EntryNotFound),
    ((asyncssh.SFTPPermissionDenied, asyncssh.SFTPWriteProtect, asyncssh.SFTPCannotDelete), StorageForbidden),
    ((asyncssh.SFTPFileAlreadyExists,), EntryExists),
    ((asyncssh.SFTPNotADirectory,), NotAFolder),
    ((asyncssh.SFTPFileIsADirectory,), NotAFile),
    ((asyncssh.SFTPOpUnsupported,), NotSupported),
)
_LOST = (asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection)
_FULL = (asyncssh.SFTPNoSpaceOnFilesystem, asyncssh.SFTPQuotaExceeded)
_BAD_NAME = (asyncssh.SFTPBadMessage, asyncssh.SFTPInvalidFilename, asyncssh.SFTPInvalidParameter)
NO_ANSWER = "the SFTP server does not answer"


class ServerFailure(StorageProblem):
    """The server answers `failure`, which may mean anything: a name is taken, or a disk is full."""


def make_problem(error: asyncssh.SFTPError, name: str) -> StorageProblem:
    """Return the problem for an error status of the protocol; `name`: the subject of the request, "" if unknown."""
    about = f" about {name}" if name else ""
    for errors, kind in _KINDS:
        if isinstance(error, errors):
            return kind()
    if isinstance(error, _LOST):
        return Unreachable("the connection to the SFTP server was lost")
    if isinstance(error, _FULL):
        return StorageFull("the server has no space left")
    if isinstance(error, _BAD_NAME):
        return StorageProblem(f"the server cannot hold the name {name}" if name else "the server refuses the request")
    return ServerFailure(
        f"the SFTP server answers {type(error).__name__.removeprefix('SFTP')}{about}: {error.reason[:200]}"
    )


@contextmanager
def translate_errors(name: str = "") -> Iterator[None]:
    """Raise every failure of asyncssh as a StorageProblem, without a password or a key in its message."""
    try:
        yield
    except asyncssh.SFTPError as error:
        raise make_problem(error, name) from error
    except asyncssh.PermissionDenied as error:
        raise StorageForbidden("the SFTP server refuses the username with this password or private key") from error
    except asyncssh.KeyExchangeFailed as error:
        raise StorageProblem(f"the SSH server supports none of our methods: {error.reason[:200]}") from error
    except asyncssh.ChannelOpenError as error:
        raise StorageProblem("the SSH server offers no SFTP") from error
    except (asyncssh.ProtocolError, asyncssh.ProtocolNotSupported) as error:
        raise StorageProblem("the server at this address is not an SSH server") from error
    except UnicodeError as error:
        raise StorageProblem("the SSH server cannot be addressed by this name") from error
    except (asyncssh.Error, OSError) as error:
        raise Unreachable(f"{NO_ANSWER} ({type(error).__name__})") from error
