"""Every failure a caller can see, as one family: class, code in the envelope, meaning, [module when not this one].

Problem                      500  the base: its message is fit for the user
├── WrongArchivePassword     202  an archive needs a (different) password; clients ask for it on this code
├── BadRequest               400  not parseable, wrong type, out of bounds
├── Unauthorized             401  no, invalid or expired token; wrong user or password
├── SecondFactorRequired     402  the one-time code is missing or wrong
├── Denied                   403  a right, a rule or a gate forbids it
│   ├── RelativePath         403  a path or name that leads out of its folder
│   ├── Collision            403  the target name is taken
│   └── ForbiddenAddress     403  an outgoing connection to an address that is not allowed [net.addresses]
├── Missing                  404  unknown route, task, driver, key
├── UploadRefused            405  the storage takes no uploads
├── TooLarge                 413  more bytes than this deployment can carry
├── TooMany                  429  too many failed sign-ins
├── BrokenArchive            500  not an archive of its kind, damaged, or packed in an unknown way
│   └── ArchiveTooLarge      500  it, or a file in it, unpacks to more than the limits allow
├── StorageProblem           500  what a driver raises: one of these five and nothing else
│   ├── NotFound             500  `object not found`
│   ├── Exists               500  `file exists`
│   ├── Forbidden            500  `permission denied`
│   ├── Unreachable          500  the storage does not answer; worth a retry
│   ├── StorageUnavailable   500  the storage did not start; its status is in the message
│   └── NotSupported         500  `not implement`
│       ├── NotAFolder       500  `not a folder`
│       └── NotAFile         500  `not a file`
├── UnreadableTask           500  a task's record is of a version that is not known here
├── RecordsUnavailable       500  the records could not be read or written; worth a retry
├── RecordMissing            500  there is no such record [records.base]
├── NameTaken                500  another record has the unique name [records.base]
├── Conflict                 500  a condition on a record did not hold [records.base]
├── Cancelled                500  the task was cancelled [tasks.steps]
├── Busy                     500  another worker holds the task; worth a retry [tasks.steps]
├── Superseded               500  the task went to another worker [tasks.steps]
├── InvalidUrl               500  an address that cannot be downloaded from [tools.urls]
├── UnexpectedStatus         500  the server answers, but not with the file [tools.http]
├── LengthMismatch           500  what the server sends is not what it announced [tools.http]
└── Aria2Error               500  aria2 answers with an error [tools.aria2]
    └── UnknownDownload      500  aria2 has no such download [tools.aria2]

The class name is also the word on which a state machine retries.
"""

from __future__ import annotations

from typing import Any, ClassVar


class Problem(Exception):
    """A failure with an envelope code and a message fit for the user; `data` rides along in the envelope."""

    code: ClassVar[int] = 500
    text: ClassVar[str] = "internal error"

    def __init__(self, message: str | None = None, *, data: Any = None) -> None:
        self.message = self.text if message is None else message
        self.data = data
        super().__init__(self.message)

    def with_prefix(self, prefix: str) -> Problem:
        """The same failure with `prefix: ` in front of its message."""
        return type(self)(f"{prefix}: {self.message}", data=self.data)


class BadRequest(Problem):
    code = 400
    text = "bad request"


class Unauthorized(Problem):
    code = 401
    text = "token is invalidated"


class SecondFactorRequired(Problem):
    code = 402
    text = "Invalid 2FA code"


class Denied(Problem):
    code = 403
    text = "permission denied"


class RelativePath(Denied):
    text = "using relative path is not allowed"


class Collision(Denied):
    text = "file exists"


class Missing(Problem):
    code = 404
    text = "not found"


class UploadRefused(Problem):
    code = 405
    text = "Current storage doesn't support upload"


class TooLarge(Problem):
    code = 413
    text = "too large"


class TooMany(Problem):
    code = 429
    text = (
        "Too many unsuccessful sign-in attempts have been made using an incorrect username or password, "
        "Try again later."
    )


class WrongArchivePassword(Problem):
    code = 202
    text = "wrong archive password"


class BrokenArchive(Problem):
    text = "the archive is broken"


class ArchiveTooLarge(BrokenArchive):
    text = "the archive unpacks to more than is allowed"


class RecordsUnavailable(Problem):
    """The records could not be read or written; worth a retry."""

    text = "the records engine does not answer"


class UnreadableTask(Problem):
    text = "this task was stored by another version of the service"


class StorageProblem(Problem):
    """What a driver can say. Drivers raise these five and nothing else."""


class NotFound(StorageProblem):
    text = "object not found"


class Exists(StorageProblem):
    text = "file exists"


class Forbidden(StorageProblem):
    text = "permission denied"


class Unreachable(StorageProblem):
    text = "storage does not answer"


class StorageUnavailable(StorageProblem):
    text = "storage not init"


class NotSupported(StorageProblem):
    text = "not implement"


class NotAFolder(NotSupported):
    text = "not a folder"


class NotAFile(NotSupported):
    text = "not a file"
