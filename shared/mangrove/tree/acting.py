"""The caller on whose behalf a storage is changed: the trash and the index record it.

The caller is a context variable, as a request id is. An argument would belong to each operation of a driver that may
replace a file, in all drivers and their callers, although only these records need it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import NamedTuple

from mangrove.identity.rights import Caller


class Actor(NamedTuple):
    """A user who changes entries."""

    id: int = 0
    name: str = ""


NOBODY = Actor()
_actor: ContextVar[Actor] = ContextVar("actor", default=NOBODY)


def note_caller(caller: Caller) -> None:
    """Note the caller for the rest of the request or task step."""
    _actor.set(Actor(caller.user.id, caller.user.username))


def note_visitor() -> None:
    """Note that the visitor of a share link, who has no account, makes the next changes."""
    _actor.set(NOBODY)


def find_actor() -> Actor:
    """Return the current caller. It has no id for work of the service itself."""
    return _actor.get()
