"""Failures of smbprotocol and status codes of a server as StorageProblem."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from smbprotocol.exceptions import SMBAuthenticationError, SMBConnectionClosed, SMBException, SMBResponseException
from smbprotocol.header import NtStatus as Status

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

_DISABLED, _LOCKED_OUT, _RESTRICTED, _LOGON_TYPE = 0xC0000072, 0xC0000234, 0xC000006E, 0xC000015B
_EXPIRED, _MUST_CHANGE, _HOURS = 0xC0000193, 0xC0000224, 0xC000006F
_LOCK_CONFLICT, _WRITE_PROTECTED, _QUOTA, _PATH_TOO_LONG = 0xC0000054, 0xC00000A2, 0xC0000044, 0xC0000106
_SESSION_EXPIRED, _NETWORK_ACCESS_DENIED, _NO_MEMORY = 0xC000035C, 0xC00000CA, 0xC0000017

_KINDS: dict[type[StorageProblem], tuple[int, ...]] = {
    EntryNotFound: (
        Status.STATUS_OBJECT_NAME_NOT_FOUND, Status.STATUS_OBJECT_PATH_NOT_FOUND, Status.STATUS_NO_SUCH_FILE,
        Status.STATUS_NOT_FOUND, Status.STATUS_DELETE_PENDING, Status.STATUS_OBJECT_PATH_INVALID,
        Status.STATUS_STOPPED_ON_SYMLINK,
    ),
    EntryExists: (Status.STATUS_OBJECT_NAME_COLLISION,),
    StorageForbidden: (
        Status.STATUS_ACCESS_DENIED, Status.STATUS_PRIVILEGE_NOT_HELD, Status.STATUS_CANNOT_DELETE, _WRITE_PROTECTED,
        _NETWORK_ACCESS_DENIED,
    ),
    InUse: (Status.STATUS_SHARING_VIOLATION, _LOCK_CONFLICT),
    NotAFile: (Status.STATUS_FILE_IS_A_DIRECTORY,),
    NotAFolder: (Status.STATUS_NOT_A_DIRECTORY,),
    NotSupported: (
        Status.STATUS_NOT_SUPPORTED, Status.STATUS_INVALID_DEVICE_REQUEST, Status.STATUS_INVALID_INFO_CLASS,
    ),
}  # fmt: skip
_KIND = {status: kind for kind, statuses in _KINDS.items() for status in statuses}
_SIGN_IN = {
    Status.STATUS_LOGON_FAILURE: "the server refuses the user name or the password",
    Status.STATUS_WRONG_PASSWORD: "the server refuses the user name or the password",
    Status.STATUS_NONE_MAPPED: "the server does not know the user",
    Status.STATUS_PASSWORD_EXPIRED: "the password has expired",
    _MUST_CHANGE: "the password has to be changed first",
    _DISABLED: "the account is disabled",
    _EXPIRED: "the account has expired",
    _LOCKED_OUT: "the account is locked",
    _RESTRICTED: "the account is restricted: it may have no password",
    _HOURS: "the account may not sign in at this time",
    _LOGON_TYPE: "the account may not sign in over the network",
}
_NAME = {Status.STATUS_OBJECT_NAME_INVALID, Status.STATUS_OBJECT_PATH_SYNTAX_BAD, _PATH_TOO_LONG}
_FULL = {Status.STATUS_DISK_FULL: "the storage is full", _QUOTA: "the quota of the storage is used up"}
OVERLOADED = {_NO_MEMORY, Status.STATUS_INSUFF_SERVER_RESOURCES, Status.STATUS_INSUFFICIENT_RESOURCES}
_TEMPORARY = OVERLOADED | {
    Status.STATUS_NETWORK_NAME_DELETED, Status.STATUS_USER_SESSION_DELETED, _SESSION_EXPIRED,
    Status.STATUS_SERVER_UNAVAILABLE,
    Status.STATUS_REQUEST_NOT_ACCEPTED, Status.STATUS_IO_TIMEOUT, Status.STATUS_FILE_CLOSED, Status.STATUS_CANCELLED,
}  # fmt: skip
_SPECIFIC_PROBLEMS = {
    Status.STATUS_BAD_NETWORK_NAME: (StorageProblem, "the server has no such share"),
    Status.STATUS_PATH_NOT_COVERED: (NotSupported, "this lies on another server (DFS)"),
    Status.STATUS_DIRECTORY_NOT_EMPTY: (InUse, "the folder is not empty"),
}
_NAMES = {value: name for name, value in vars(Status).items() if name.startswith("STATUS_")}


def make_problem(status: int, name: str = "") -> StorageProblem:
    """Return the problem for a status code of a server about the file `name`."""
    if status in _KIND:
        return _KIND[status]()
    if status in _SIGN_IN:
        return StorageForbidden(_SIGN_IN[status])
    if status in _NAME:
        return refuse_name(name)
    if status in _FULL:
        return StorageFull(_FULL[status])
    if status in _SPECIFIC_PROBLEMS:
        kind, text = _SPECIFIC_PROBLEMS[status]
        return kind(text)
    text = f"the SMB server answers {_NAMES.get(status, f'0x{status:08x}')}"
    return Unreachable(text) if status in _TEMPORARY else StorageProblem(text)


def refuse_name(name: str) -> StorageProblem:
    """Return the problem for a name that an SMB server cannot store."""
    return StorageProblem(f"an SMB server cannot hold the name {name!r}")


@contextmanager
def translate_errors(name: str = "") -> Iterator[None]:
    """Raise every failure of SMB as a StorageProblem about the file `name`."""
    try:
        yield
    except SMBResponseException as error:
        raise make_problem(error.status, name) from error
    except SMBAuthenticationError as error:
        raise StorageForbidden(
            "signing in failed: the server and this service do not agree on a method, or not on the user"
        ) from error
    except SMBConnectionClosed as error:
        raise Unreachable("the connection to the SMB server was lost") from error
    except ConnectionRefusedError as error:
        raise Unreachable("the server refuses the connection") from error
    except TimeoutError as error:
        raise Unreachable("the SMB server does not answer in time") from error
    except OSError as error:
        raise Unreachable(f"no connection to the server: {error.strerror or 'it failed'}") from error
    except SMBException as error:
        raise StorageProblem(f"the SMB server is not used: {str(error)[:200]}") from error
    except (struct.error, ValueError) as error:
        raise Unreachable("the server answers something that is not SMB") from error
