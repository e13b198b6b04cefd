"""Sessions in requests: the device and the address of the client, and the rows of lists."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from pydantic import Field

from mangrove.core.problems import SecondFactorRequired, Unauthorized
from mangrove.identity import sessions, tokens
from mangrove.records.open_sessions import OpenSession
from mangrove.records.users import User
from mangrove.tree import audit
from mangrove.tree.audit import AuditAction
from mangrove.web.address import find_client_address
from mangrove.web.framework import Body, Model, Request, require_in_schema

ACTIVE, INACTIVE = 0, 1


class SessionRow(Model):
    session_id: str = Field(description="Id of the session.")
    user_id: int = Field(description="Id of its user.")
    username: str = Field(description="Name of its user.")
    last_active: int = Field(description="Time of the last use in seconds since the epoch, at most a minute late.")
    status: int = Field(description="0, or 1 if the user is disabled.")
    ua: str = Field(description="The `User-Agent` of the client that signed in.")
    ip: str = Field(description="Address of the client at the last use.")
    created: datetime = Field(description="Time of the sign-in.")
    expires: datetime = Field(description="Time when the session ends by itself.")
    current: bool = Field(description="True for the session of this request.")


class EvictSessionReq(Body):
    model_config = require_in_schema("session_id")

    session_id: str = Field("", max_length=sessions.MAX_SESSION_ID_LENGTH, description="Id of the session.")


async def record_session(request: Request, token: str) -> str:
    """Record the session of a new token, with the device and the address of the client. Return the token."""
    address = await find_client_address(request)
    await asyncio.to_thread(sessions.record, token, request.headers.get("user-agent", ""), address)
    session = tokens.find_session(token)
    username = "" if session is None else session.username
    await asyncio.to_thread(audit.add, username, address, AuditAction.SIGN_IN, _name_way(request))
    return token


@asynccontextmanager
async def record_refusal(request: Request, username: str, otp_code: str = "") -> AsyncIterator[None]:
    """Record a sign-in that is refused in this context.

    The first step of a sign-in, without a code, and sign-ins during a lockout are not recorded.
    """
    try:
        yield
    except (Unauthorized, SecondFactorRequired) as problem:
        if isinstance(problem, SecondFactorRequired) and not otp_code:
            raise
        address = await find_client_address(request)
        await asyncio.to_thread(audit.record_refused_sign_in, username, address, _name_way(request))
        raise


def _name_way(request: Request) -> str:
    """Return the way of a sign-in, the last part of its path."""
    return request.url.path.rpartition("/")[2]


async def note_use(request: Request, token: str) -> None:
    """Record that the session of a valid token is used, if the last record is old enough."""
    id = tokens.find_due_use(token)
    if id is not None:
        await asyncio.to_thread(sessions.note_use, id, await find_client_address(request))


def format_sessions(rows: Iterable[tuple[OpenSession, User]], request: Request) -> list[dict[str, Any]]:
    """Return sessions with their users as rows of an answer."""
    current = tokens.find_session(tokens.read_header(request.headers))
    current_id = current.jti if current is not None else ""
    return [_format_session(session, user, current_id) for session, user in rows]


def _format_session(session: OpenSession, user: User, current_id: str) -> dict[str, Any]:
    return {
        "session_id": session.id,
        "user_id": user.id,
        "username": user.username,
        "last_active": session.last_used,
        "status": INACTIVE if user.disabled else ACTIVE,
        "ua": session.device,
        "ip": session.address,
        "created": datetime.fromtimestamp(session.created, UTC),
        "expires": datetime.fromtimestamp(session.expires, UTC),
        "current": session.id == current_id,
    }
