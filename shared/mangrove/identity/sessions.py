"""Sessions of users: the list of those that are open, with device, address and last use, and how they are ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from mangrove.core.problems import Problem, ResourceNotFound
from mangrove.core.telemetry import log_event, log_warning
from mangrove.identity import tokens
from mangrove.records import open_sessions
from mangrove.records.open_sessions import OpenSession
from mangrove.records.users import User

FindUser = Callable[[str], User | None]
SessionOfUser = tuple[OpenSession, User]
MAX_LISTED_SESSIONS = 200  # in one answer, the last used ones
MAX_DEVICE_LENGTH = 256
MAX_SESSION_ID_LENGTH = 64


def record(token: str, device: str, address: str) -> None:
    """Record the session of a new token. `device` is the `User-Agent` of the client."""
    session, now = tokens.find_session(token), int(time.time())
    if session is not None:
        open_sessions.add(
            OpenSession(
                session.jti, session.username, session.pwd_ts, _clean_device(device), address, now, now, session.exp
            )
        )


def _clean_device(device: str) -> str:
    return "".join(filter(str.isprintable, device))[:MAX_DEVICE_LENGTH]


def note_use(id: str, address: str) -> None:
    """Record that a session is used now. A request does not fail if that is not possible."""
    try:
        open_sessions.note_use(id, address)
    except Problem as problem:
        log_warning("the last use of a session is not recorded", reason=problem.message)


def list_of(user: User) -> list[SessionOfUser]:
    """Return the open sessions of a user, the last used first."""
    return _select_valid(open_sessions.find_by_user(user.username, MAX_LISTED_SESSIONS), {user.username: user})


def list_all(find: FindUser) -> list[SessionOfUser]:
    """Return the open sessions of all users, the last used first. `find` finds a user by name."""
    sessions = open_sessions.find_last_used(MAX_LISTED_SESSIONS)
    return _select_valid(sessions, {name: find(name) for name in {session.username for session in sessions}})


def _select_valid(sessions: Iterable[OpenSession], users: Mapping[str, User | None]) -> list[SessionOfUser]:
    """Return the sessions with their users, without those that ended with the password or the name of the user."""
    pairs = ((session, users[session.username]) for session in sessions)
    return [(session, user) for session, user in pairs if user is not None and user.pwd_ts == session.pwd_ts]


def end_own(user: User, id: str) -> None:
    """End a session of the user. Raise ResourceNotFound for any other id."""
    session = open_sessions.find(id)
    if session is None or session.username != user.username:
        raise ResourceNotFound("session not found")
    _end(session)


def end(id: str) -> str:
    """End a session of any user, and return the user's name. Raise ResourceNotFound if there is no such session."""
    session = open_sessions.find(id)
    if session is None:
        raise ResourceNotFound("session not found")
    _end(session)
    return session.username


def _end(session: OpenSession) -> None:
    tokens.revoke_session(session.id, session.expires)
    log_event("a session ended", user=session.username, reason="ended by a person")
