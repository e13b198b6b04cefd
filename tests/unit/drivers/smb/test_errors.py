"""Errors of smbprotocol and status codes of servers as problems."""

from __future__ import annotations

import struct

import pytest
from smbprotocol.exceptions import (
    LogonFailure,
    SMBAuthenticationError,
    SMBConnectionClosed,
    SMBException,
    SMBResponseException,
    StoppedOnSymlink,
)
from smbprotocol.header import NtStatus

from mangrove.core.problems import (
    EntryExists,
    EntryNotFound,
    InUse,
    NotAFile,
    NotAFolder,
    NotSupported,
    StorageForbidden,
    StorageFull,
    StorageProblem,
    Unreachable,
)
from mangrove.drivers.smb.errors import make_problem, translate_errors


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (NtStatus.STATUS_OBJECT_NAME_NOT_FOUND, EntryNotFound),
        (NtStatus.STATUS_OBJECT_PATH_NOT_FOUND, EntryNotFound),
        (NtStatus.STATUS_DELETE_PENDING, EntryNotFound),
        (NtStatus.STATUS_OBJECT_NAME_COLLISION, EntryExists),
        (NtStatus.STATUS_ACCESS_DENIED, StorageForbidden),
        (NtStatus.STATUS_SHARING_VIOLATION, InUse),
        (NtStatus.STATUS_FILE_IS_A_DIRECTORY, NotAFile),
        (NtStatus.STATUS_NOT_A_DIRECTORY, NotAFolder),
        (NtStatus.STATUS_NOT_SUPPORTED, NotSupported),
        (NtStatus.STATUS_PATH_NOT_COVERED, NotSupported),
        (NtStatus.STATUS_USER_SESSION_DELETED, Unreachable),
        (NtStatus.STATUS_DISK_FULL, StorageFull),
        (NtStatus.STATUS_BAD_NETWORK_NAME, StorageProblem),
        (0xC0000072, StorageForbidden),
        (0xC0FFEE00, StorageProblem),
    ],
)
def test_a_status_is_a_problem(status: int, kind: type[StorageProblem]) -> None:
    assert type(make_problem(status, "f")) is kind


def test_texts_say_what_it_was() -> None:
    assert "'a?b'" in str(make_problem(NtStatus.STATUS_OBJECT_NAME_INVALID, "a?b"))
    assert "0xc0ffee00" in str(make_problem(0xC0FFEE00))
    assert "STATUS_PIPE_BUSY" in str(make_problem(NtStatus.STATUS_PIPE_BUSY))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (LogonFailure(), StorageForbidden),
        (StoppedOnSymlink(), EntryNotFound),
        (SMBAuthenticationError("secret"), StorageForbidden),
        (SMBConnectionClosed("closed"), Unreachable),
        (SMBException("encryption is required"), StorageProblem),
        (ConnectionRefusedError(), Unreachable),
        (TimeoutError(), Unreachable),
        (OSError(113, "No route to host"), Unreachable),
        (struct.error("unpack"), Unreachable),
        (ValueError("an enum has no such value"), Unreachable),
    ],
)
def test_an_error_is_a_problem(error: Exception, kind: type[StorageProblem]) -> None:
    with pytest.raises(kind) as raised, translate_errors("f"):
        raise error
    assert type(raised.value) is kind
    assert "secret" not in str(raised.value)


def test_problems_pass() -> None:
    with pytest.raises(EntryNotFound), translate_errors():
        raise EntryNotFound
    assert issubclass(LogonFailure, SMBResponseException)
