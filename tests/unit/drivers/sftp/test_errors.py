"""Errors of asyncssh as problems of the storage."""

from __future__ import annotations

import asyncssh
import pytest

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
from mangrove.drivers.sftp.errors import ServerFailure, translate_errors


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (asyncssh.SFTPNoSuchFile("x"), EntryNotFound, "object not found"),
        (asyncssh.SFTPNoSuchPath("x"), EntryNotFound, "object not found"),
        (asyncssh.SFTPPermissionDenied("x"), StorageForbidden, "permission denied"),
        (asyncssh.SFTPFileAlreadyExists("x"), EntryExists, "file exists"),
        (asyncssh.SFTPNotADirectory("x"), NotAFolder, "not a folder"),
        (asyncssh.SFTPFileIsADirectory("x"), NotAFile, "not a file"),
        (asyncssh.SFTPOpUnsupported("x"), NotSupported, "not implement"),
        (asyncssh.SFTPConnectionLost("x"), Unreachable, "lost"),
        (asyncssh.SFTPNoConnection("x"), Unreachable, "lost"),
        (asyncssh.SFTPNoSpaceOnFilesystem("x"), StorageFull, "no space"),
        (asyncssh.SFTPBadMessage("x"), StorageProblem, "/d/name"),
        (asyncssh.SFTPFailure("Failure"), ServerFailure, "/d/name: Failure"),
        (asyncssh.SFTPError(99, "odd"), ServerFailure, "odd"),
        (asyncssh.PermissionDenied("x"), StorageForbidden, "refuses the username"),
        (asyncssh.KeyExchangeFailed("no cipher"), StorageProblem, "no cipher"),
        (asyncssh.ChannelOpenError(1, "x"), StorageProblem, "offers no SFTP"),
        (asyncssh.ProtocolError("x"), StorageProblem, "not an SSH server"),
        (asyncssh.ConnectionLost("x"), Unreachable, "does not answer"),
        (ConnectionRefusedError(), Unreachable, "does not answer"),
        (TimeoutError(), Unreachable, "does not answer"),
        (UnicodeError("label too long"), StorageProblem, "name"),
    ],
)
def test_an_error_becomes_a_problem(error: Exception, kind: type[StorageProblem], text: str) -> None:
    with pytest.raises(StorageProblem) as raised, translate_errors("/d/name"):
        raise error
    assert type(raised.value) is kind
    assert text in raised.value.message
    assert raised.value.__cause__ is error


def test_problems_and_faults_pass() -> None:
    for error in (EntryNotFound(), KeyError("x")):
        with pytest.raises(type(error)) as raised, translate_errors():
            raise error
        assert raised.value is error
