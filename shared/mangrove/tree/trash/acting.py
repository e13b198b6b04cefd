"""The caller on whose behalf a storage is changed: the trash records it.

The caller is a context variable, as a request id is. An argument would belong to each operation of a driver that may
replace a file, in all drivers and their callers, although only the records of the trash need it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import NamedTuple

from mangrove.identity.rights import Caller


class TrashActor(NamedTuple):
    """A user who removes or replaces entries."""

    id: int = 0
    name: str = ""


NOBODY = TrashActor()
_remover: ContextVar[TrashActor] = ContextVar("remover", default=NOBODY)


def note_caller(caller: Caller) -> None:
    """Note the caller for the rest of the request or task step."""
    _remover.set(TrashActor(caller.user.id, caller.user.username))


def find_remover() -> TrashActor:
    """Return the current caller. It has no id for work of the service itself."""
    return _remover.get()
