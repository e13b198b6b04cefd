"""Failures that a caller can see.

All derive from `Problem`, which has a code for the envelope and a message for users. A package defines its own failures
as subclasses. State machines retry by the name of a class, so each name is unique.
"""

from __future__ import annotations

from typing import Any, ClassVar


class Problem(Exception):
    """A failure with a message for the user and, for the envelope, `data`."""

    code: ClassVar[int] = 500
    """The code in the envelope."""
    text: ClassVar[str] = "internal error"
    """The message unless another one is passed."""
    word: ClassVar[str] = "Problem"
    """The word by which clients distinguish failures: the name of the class unless it is overridden.

    A class of another module has the word of its base.
    """
    retry_after: int = 0
    """In seconds, for the Retry-After of the answer; 0 if unknown."""
    plain_message: str = ""
    """The message that `describe` returns, if it differs from the one that existing clients expect.

    That of a class belongs to its `text`.
    """

    def __init_subclass__(cls) -> None:
        if cls.__module__ == __name__ and "word" not in vars(cls):
            cls.word = cls.__name__

    def __init__(self, message: str | None = None, *, data: Any = None) -> None:
        self.message = self.text if message is None else message
        if self.message != self.text:
            self.plain_message = ""
        self.data = data
        super().__init__(self.message)

    def describe(self) -> str:
        """Return the message in the native flavour and in all protocols."""
        return self.plain_message or self.message

    def with_prefix(self, prefix: str) -> Problem:
        """Return the same failure with `prefix: ` in front of its message."""
        explained = type(self)(f"{prefix}: {self.message}", data=self.data)
        explained.retry_after = self.retry_after
        explained.plain_message = self.plain_message
        return explained


class BadRequest(Problem):
    """The request cannot be parsed, or a value has the wrong type or is out of bounds."""

    code = 400
    text = "bad request"


class Unauthorized(Problem):
    """The token is missing, invalid or expired, or the user or password is wrong."""

    code = 401
    text = "token is invalidated"


class PresentCodeRequired(Unauthorized):
    """A change of the second factor needs a one-time code of it."""

    text = "a present code of the second factor is needed, in the header Otp-Code"


class SecondFactorRequired(Problem):
    """The one-time code is missing or wrong."""

    code = 402
    text = "Invalid 2FA code"


class AccessDenied(Problem):
    """A permission, a rule or a gate forbids it."""

    code = 403
    word = "Denied"
    text = "permission denied"


class RelativePath(AccessDenied):
    """The path or name leads out of its folder."""

    text = "using relative path is not allowed"


class NotReadable(AccessDenied):
    """The rules do not allow the caller to read here, at all or without the password of the folder."""

    text = "password is incorrect or you have no permission"


class NameConflict(AccessDenied):
    """The name of a target is taken."""

    word = "Collision"
    text = "file exists"


class ResourceNotFound(Problem):
    """A route, task, session, driver or key is unknown."""

    code = 404
    word = "Missing"
    text = "not found"


class FeatureNotAvailable(ResourceNotFound):
    """A part of the interface that this version does not have."""

    word = "NotAvailable"
    text = "not available"


class SearchUnavailable(ResourceNotFound):
    """The search is switched off."""

    text = "search not available"


class OutOfTime(Problem):
    """The request exceeded the time of a function. The client should retry."""

    text = "this takes longer than one request may: ask again, or for less at once"


class SearchTooSlow(Problem):
    """The search exceeded its time."""

    text = "the search takes too long: search for something longer, or in a folder further down"


class MethodNotAllowed(Problem):
    """A file route was called with a method other than GET and HEAD."""

    code = 405
    text = "method not allowed"


class UploadRefused(Problem):
    """The storage does not accept uploads."""

    code = 405
    text = "Current storage doesn't support upload"


class ChunkInFlight(Problem):
    """Another request is storing the same chunk of an upload."""

    code = 409
    text = "chunk is being uploaded by another request"


class TooLarge(Problem):
    """The request has more bytes than this deployment can transfer."""

    code = 413
    text = "too large"


class TooMany(Problem):
    """The caller exceeds a concurrency or rate limit. A client may try again after `retry_after` seconds."""

    code = 429
    text = (
        "Too many unsuccessful sign-in attempts have been made using an incorrect username or password, "
        "Try again later."
    )

    def __init__(self, message: str | None = None, *, data: Any = None, retry_after: int = 1) -> None:
        super().__init__(message, data=data)
        self.retry_after = retry_after


class WrongArchivePassword(Problem):
    """An archive needs a (different) password; clients ask for it when they see this code."""

    code = 202
    text = "wrong archive password"


class BrokenArchive(Problem):
    """The file is not an archive of its kind, is damaged, or is packed by an unknown method."""

    text = "the archive is broken"


class ArchiveTooLarge(BrokenArchive):
    """The archive, or a file in it, exceeds the limits of unpacked size."""

    text = "the archive unpacks to more than is allowed"


class RecordNotFound(Problem):
    """There is no record of this id."""

    text = "record not found"


class RecordsUnavailable(Problem):
    """The records could not be read or written. The caller should retry."""

    text = "the records engine does not answer"


class RecordsThrottled(RecordsUnavailable):
    """The records engine is overloaded. The caller should retry later."""

    text = "the records engine is overloaded"


class UnreadableTask(Problem):
    """The record of a task has an unknown version."""

    text = "this task was stored by another version of the service"


class StorageProblem(Problem):
    """The failures of drivers. Drivers raise it and its subclasses, and nothing else."""


class EntryNotFound(StorageProblem):
    """There is no such file or folder."""

    word = "NotFound"
    text = "object not found"


class NotMounted(StorageProblem):
    """No storage is mounted at the path or above it."""

    text = "storage not found"


class EntryExists(StorageProblem):
    """A file or folder of that name exists."""

    word = "Exists"
    text = "file exists"


class InUse(StorageProblem):
    """Another request is changing the entry of that name. The caller should retry."""

    text = "the name is in use by another request, try again later"


class EntryChanged(StorageProblem):
    """The file was replaced or changed."""

    word = "Changed"
    text = "the file changed meanwhile"


class StorageForbidden(StorageProblem):
    """The storage denies access."""

    word = "Forbidden"
    text = "permission denied"


class Unreachable(StorageProblem):
    """The storage does not answer. The caller should retry."""

    text = "storage does not answer"


class StorageUnavailable(StorageProblem):
    """The storage did not start; its status is in the message."""

    text = "storage not init"


class StorageFull(StorageProblem):
    """The storage has no space left, or its quota is used up."""

    text = "the storage is full"


class DataDiskFull(StorageFull):
    """The disk of the data directory is full; its files can still be read and removed."""

    text = "the data disk is full"


class NotSupported(StorageProblem):
    """The storage cannot do this."""

    text = "not implement"
    plain_message = "the storage cannot do this"


class NotAFolder(NotSupported):
    text = plain_message = "not a folder"


class NotAFile(NotSupported):
    text = plain_message = "not a file"
