"""What an SMB server and its library answer, as problems."""

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
    Exists,
    Forbidden,
    InUse,
    NotAFile,
    NotAFolder,
    NotFound,
    NotSupported,
    StorageFull,
    StorageProblem,
    Unreachable,
)
from mangrove.drivers.smb.errors import make_problem, translate_errors


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (NtStatus.STATUS_OBJECT_NAME_NOT_FOUND, NotFound),
        (NtStatus.STATUS_OBJECT_PATH_NOT_FOUND, NotFound),
        (NtStatus.STATUS_DELETE_PENDING, NotFound),
        (NtStatus.STATUS_OBJECT_NAME_COLLISION, Exists),
        (NtStatus.STATUS_ACCESS_DENIED, Forbidden),
        (NtStatus.STATUS_SHARING_VIOLATION, InUse),
        (NtStatus.STATUS_FILE_IS_A_DIRECTORY, NotAFile),
        (NtStatus.STATUS_NOT_A_DIRECTORY, NotAFolder),
        (NtStatus.STATUS_NOT_SUPPORTED, NotSupported),
        (NtStatus.STATUS_PATH_NOT_COVERED, NotSupported),
        (NtStatus.STATUS_USER_SESSION_DELETED, Unreachable),
        (NtStatus.STATUS_DISK_FULL, StorageFull),
        (NtStatus.STATUS_BAD_NETWORK_NAME, StorageProblem),
        (0xC0000072, Forbidden),
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
        (LogonFailure(), Forbidden),
        (StoppedOnSymlink(), NotFound),
        (SMBAuthenticationError("secret"), Forbidden),
        (SMBConnectionClosed("closed"), Unreachable),
        (SMBException("encryption is required"), StorageProblem),
        (ConnectionRefusedError(), Unreachable),
        (TimeoutError(), Unreachable),
        (OSError(113, "No route to host"), Unreachable),
        (struct.error("unpack"), Unreachable),
        (ValueError("an enum has no such value"), Unreachable),
    ],
)
def test_what_fails_is_a_problem(error: Exception, kind: type[StorageProblem]) -> None:
    with pytest.raises(kind) as raised, translate_errors("f"):
        raise error
    assert type(raised.value) is kind
    assert "secret" not in str(raised.value)


def test_problems_pass() -> None:
    with pytest.raises(NotFound), translate_errors():
        raise NotFound
    assert issubclass(LogonFailure, SMBResponseException)
