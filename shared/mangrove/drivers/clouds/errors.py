"""Errors of opendal as StorageProblem, without its texts, which contain signed addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opendal import exceptions

from mangrove.core.problems import (
    EntryChanged,
    EntryExists,
    EntryNotFound,
    NotAFile,
    NotAFolder,
    NotSupported,
    StorageForbidden,
    StorageProblem,
    Unreachable,
)

# The text of an error of opendal: its kind, its persistence, and the answer of the service if there was one.
KIND = re.compile(r"(\w+) \((\w+)\)")
STATUS = re.compile(r"response: Parts \{ status: (\d{3})")
MEANINGS: Mapping[str, type[StorageProblem]] = {
    "NotFound": EntryNotFound,
    "PermissionDenied": StorageForbidden,
    "AlreadyExists": EntryExists,
    "ConditionNotMatch": EntryChanged,
    "RangeNotSatisfied": EntryChanged,
    "IsADirectory": NotAFile,
    "NotADirectory": NotAFolder,
    "Unsupported": NotSupported,
}
ERRORS = (
    exceptions.AlreadyExists,
    exceptions.ConditionNotMatch,
    exceptions.ConfigInvalid,
    exceptions.Conflict,
    exceptions.Error,
    exceptions.IsADirectory,
    exceptions.IsSameFile,
    exceptions.NotADirectory,
    exceptions.NotFound,
    exceptions.PermissionDenied,
    exceptions.RangeNotSatisfied,
    exceptions.RateLimited,
    exceptions.Unexpected,
    exceptions.Unsupported,
)  # they have no base class of their own
STATUSES: Mapping[int, type[StorageProblem]] = {
    401: StorageForbidden, 403: StorageForbidden, 412: EntryChanged, 416: EntryChanged, 501: NotSupported,
}  # fmt: skip


def make_problem(text: str) -> StorageProblem:
    """Return the problem for the text of an error of opendal."""
    head, answer = KIND.match(text), STATUS.search(text)
    kind, persistence = (head[1], head[2]) if head else ("", "")
    if kind in MEANINGS:
        return MEANINGS[kind]()
    if kind == "RateLimited":
        return Unreachable("the service accepts no more requests at the moment")
    if kind == "ConfigInvalid":
        return StorageProblem("the service rejects the options of the storage")
    if answer is None:
        fails = "does not answer" if persistence != "permanent" else "gives an unexpected answer"
        return Unreachable(f"the service {fails}")
    status = int(answer[1])
    if status in STATUSES:
        return STATUSES[status]()
    if status >= 500 or status in (408, 409, 429):
        return Unreachable(f"the service answers {status}")
    return StorageProblem(f"the service answers {status}")


def get_reason(text: str) -> str:
    """Return the first line of an error without its context."""
    return text.partition("\n")[0].partition(" => ")[2]


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise every failure of opendal as a StorageProblem; its files raise an OSError with the same text."""
    try:
        yield
    except TimeoutError:
        raise Unreachable("the service does not answer in time") from None
    except (*ERRORS, OSError) as error:
        raise make_problem(str(error)) from None
