"""Every failure a caller can see, as one family: class, code in the envelope, meaning.

Problem                      500  the base: its message is fit for the user
├── WrongArchivePassword     202  an archive needs a (different) password; clients ask for it on this code
├── BadRequest               400  not parseable, wrong type, out of bounds
│   └── FormNotMounted       400  no storage is mounted at the path of a form upload, or above it
├── Unauthorized             401  no, invalid or expired token; wrong user or password
│   └── PresentCodeRequired  401  a change of the second factor needs a one-time code of it
├── SecondFactorRequired     402  the one-time code is missing or wrong
├── Denied                   403  a right, a rule or a gate forbids it
│   ├── RelativePath         403  a path or name that leads out of its folder
│   ├── NotReadable          403  the rules do not let the caller read here: without the folder's password, or at all
│   ├── Collision            403  the target name is taken
│   └── ForbiddenAddress     403  an outgoing connection to an address that is not allowed
├── Missing                  404  unknown route, task, driver, key
│   ├── NotAvailable         404  a part of the interface that this version does not have
│   └── SearchUnavailable    404  `search not available`: it is switched off
├── MethodNotAllowed         405  a file route asked in another way than GET and HEAD
├── UploadRefused            405  the storage takes no uploads
├── ChunkInFlight            409  another request is storing the same chunk of an upload
├── TooLarge                 413  more bytes than this deployment can carry
├── TooMany                  429  too many failed sign-ins, or as much at once as is allowed; worth a retry, later
├── BrokenArchive            500  not an archive of its kind, damaged, or packed in an unknown way
│   └── ArchiveTooLarge      500  it, or a file in it, unpacks to more than the limits allow
├── StorageProblem           500  what a driver raises: it or one of these, and nothing else
│   ├── NotFound             500  `object not found`
│   ├── Exists               500  `file exists`
│   │   ├── FileInPath       500  a file stands where an upload needs a folder
│   │   └── NotEmpty         500  a folder that is to be removed as an empty one holds something
│   ├── NotMounted           500  no storage is mounted at that path or above it
│   ├── InUse                500  somebody else changes what has that name; worth a retry
│   ├── Changed              500  it is another file by now than the one that was meant
│   ├── Forbidden            500  `permission denied`
│   │   └── Refused          500  an FTP server does not do it, and its code does not tell why
│   ├── Failure              500  an SFTP server does not do it, and its status does not tell why
│   ├── Unreachable          500  the storage does not answer; worth a retry
│   │   └── TooManyConnections 500  an FTP server takes no further connection
│   ├── StorageUnavailable   500  the storage did not start; its status is in the message
│   ├── StorageFull          500  the storage has no space left, or its quota is used up
│   │   └── DataDiskFull     500  the same of the disk of the data directory
│   └── NotSupported         500  `not implement`
│       ├── NotAFolder       500  `not a folder`
│       └── NotAFile         500  `not a file`
├── OutOfTime                500  a request was not done within the time that a function has; worth a retry
├── SearchTooSlow            500  a search was not done within its time
├── DamagedSegment           500  a file of the search index cannot be read
├── UnreadableTask           500  a task's record is of a version that is not known here
├── RecordsUnavailable       500  the records could not be read or written; worth a retry
│   └── RecordsThrottled     500  they take no more requests for a while
├── NoSlot                   500  as many tasks of a kind as are allowed are at work; worth a retry
├── RecordNotFound           500  there is no record of this id
├── RecordRefused            500  the engine never takes such a record: it is too large
├── SealBroken               500  a secret in a record, or the key that opens it, cannot be read
├── NewerSchema              500  the records are of a version that is not known here
├── OlderSchema              500  the records are of a version from which no upgrade leads here
├── UntrustedSchema          500  what the records say about their version is not ours
├── NameTaken                500  another record has the unique name
├── Conflict                 500  a condition on a record did not hold
│   └── LockConflict         500  a WebDAV lock excludes the one that is to be taken
├── LockQuotaExceeded        500  a user, or a file, has as many WebDAV locks as are stored
├── PropertyQuotaExceeded    500  no more WebDAV properties are stored
├── DavProblem               500  a refusal of WebDAV alone, with a status of HTTP
│   ├── PreconditionFailed   500  a header of the request says what is not so
│   └── LockedResource       500  somebody's lock is on it, and its token was not sent
├── Cancelled                500  the task was cancelled
├── Busy                     500  another worker holds the task; worth a retry
├── Superseded               500  the task went to another worker
├── ManifestLost             500  the list of what a task is to copy is gone or torn
├── ListLost                 500  the list of what a task was asked for is gone
├── InvalidUrl               500  an address that cannot be downloaded from
│   └── NoUrl                400  a text that is no address at all
├── BrokenTorrent            500  no torrent file
├── UnexpectedStatus         500  the server answers, but not with the file
├── LengthMismatch           500  what the server sends is not what it announced
└── Aria2Error               500  aria2 answers with an error
    └── UnknownDownload      500  aria2 has no such download

The class name is also the word on which a state machine retries, and what a failure's `problem` says: there a class
of another module counts as the one here that it is a kind of.
"""

from __future__ import annotations

from typing import Any, ClassVar


class Problem(Exception):
    """A failure with an envelope code and a message fit for the user; `data` rides along in the envelope.

    `retry_after`: seconds after which it is worth another try, 0 where that is not known; an HTTP answer says so.
    """

    code: ClassVar[int] = 500
    text: ClassVar[str] = "internal error"
    retry_after: int = 0

    def __init__(self, message: str | None = None, *, data: Any = None) -> None:
        self.message = self.text if message is None else message
        self.data = data
        super().__init__(self.message)

    @property
    def word(self) -> str:
        """The class, or the one of this module above it: the word by which clients tell failures apart."""
        return next(kind.__name__ for kind in type(self).__mro__ if kind.__module__ == __name__)

    def with_prefix(self, prefix: str) -> Problem:
        """The same failure with `prefix: ` in front of its message."""
        explained = type(self)(f"{prefix}: {self.message}", data=self.data)
        explained.retry_after = self.retry_after
        return explained


class BadRequest(Problem):
    code = 400
    text = "bad request"


class Unauthorized(Problem):
    code = 401
    text = "token is invalidated"


class PresentCodeRequired(Unauthorized):
    text = "a present code of the second factor is needed, in the header Otp-Code"


class SecondFactorRequired(Problem):
    code = 402
    text = "Invalid 2FA code"


class Denied(Problem):
    code = 403
    text = "permission denied"


class RelativePath(Denied):
    text = "using relative path is not allowed"


class NotReadable(Denied):
    text = "password is incorrect or you have no permission"


class Collision(Denied):
    text = "file exists"


class Missing(Problem):
    code = 404
    text = "not found"


class NotAvailable(Missing):
    text = "not available"


class SearchUnavailable(Missing):
    text = "search not available"


class OutOfTime(Problem):
    text = "this takes longer than one request may: ask again, or for less at once"


class SearchTooSlow(Problem):
    text = "the search takes too long: search for something longer, or in a folder further down"


class MethodNotAllowed(Problem):
    code = 405
    text = "method not allowed"


class UploadRefused(Problem):
    code = 405
    text = "Current storage doesn't support upload"


class ChunkInFlight(Problem):
    code = 409
    text = "chunk is being uploaded by another request"


class TooLarge(Problem):
    code = 413
    text = "too large"


class TooMany(Problem):
    """More than is allowed at once or in a while; who waits `retry_after` seconds may try again."""

    code = 429
    text = (
        "Too many unsuccessful sign-in attempts have been made using an incorrect username or password, "
        "Try again later."
    )

    def __init__(self, message: str | None = None, *, data: Any = None, retry_after: int = 1) -> None:
        super().__init__(message, data=data)
        self.retry_after = retry_after


class WrongArchivePassword(Problem):
    code = 202
    text = "wrong archive password"


class BrokenArchive(Problem):
    text = "the archive is broken"


class ArchiveTooLarge(BrokenArchive):
    text = "the archive unpacks to more than is allowed"


class RecordNotFound(Problem):
    """No such record."""

    text = "record not found"


class RecordsUnavailable(Problem):
    """The records could not be read or written; worth a retry."""

    text = "the records engine does not answer"


class RecordsThrottled(RecordsUnavailable):
    """The records take no more requests for a while; worth a retry, later."""

    text = "the records engine is overloaded"


class UnreadableTask(Problem):
    text = "this task was stored by another version of the service"


class StorageProblem(Problem):
    """What a driver can say. Drivers raise it and its subclasses, and nothing else."""


class NotFound(StorageProblem):
    text = "object not found"


class NotMounted(StorageProblem):
    text = "storage not found"


class Exists(StorageProblem):
    text = "file exists"


class InUse(StorageProblem):
    text = "the name is in use by another request, try again later"


class Changed(StorageProblem):
    text = "the file changed meanwhile"


class Forbidden(StorageProblem):
    text = "permission denied"


class Unreachable(StorageProblem):
    text = "storage does not answer"


class StorageUnavailable(StorageProblem):
    text = "storage not init"


class StorageFull(StorageProblem):
    text = "the storage is full"


class DataDiskFull(StorageFull):
    """The disk of the data directory is full; what is on it can be read and removed."""

    text = "the data disk is full"


class NotSupported(StorageProblem):
    text = "not implement"


class NotAFolder(NotSupported):
    text = "not a folder"


class NotAFile(NotSupported):
    text = "not a file"
