"""Who may call a route, declared in its signature as `who: Admin`.

A gate finds the caller before the body is bound; the caller carries the one right that the route declared.
"""

from __future__ import annotations

import hmac
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Depends, Request

from mangrove.config import config
from mangrove.identity import tokens
from mangrove.identity.rights import ADMIN, GUEST, Caller, Right
from mangrove.integers import parse_integer
from mangrove.problems import BadRequest, Denied, Unauthorized
from mangrove.records.users import User
from mangrove.site import snapshot

MAX_ROWS = 1000  # of one answer
Row = TypeVar("Row")
Level = Literal["anyone", "visitor", "member", "admin"]


class Gate:
    """A declared right; as a dependency it answers the Caller, or None for `anyone`."""

    def __init__(self, level: Level, declared_right: Right = Right.READ) -> None:
        self.level = level
        self.declared_right = declared_right

    def __str__(self) -> str:
        return (
            self.level
            if self.declared_right is Right.READ
            else f"{self.level}:{(self.declared_right.name or '').lower()}"
        )

    async def __call__(self, request: Request) -> Any:
        if self.level == "anyone":
            return None
        user = await _authenticate(request)
        if self.level == "member" and user.role == GUEST:
            raise Denied("You are a guest")
        if self.level == "admin" and user.role != ADMIN:
            raise Denied("You are not an admin")
        return Caller(user, self.declared_right)


async def _authenticate(request: Request) -> User:
    now = await snapshot.fresh()
    token = request.headers.get("authorization", "")
    if not token:
        return _find_guest(now)
    permanent = now.settings.token
    if permanent and hmac.compare_digest(token.encode(), permanent.encode()):
        return next(user for user in now.users.values() if user.role == ADMIN)
    return await tokens.user_of(token, now.users)


def _find_guest(now: snapshot.Snapshot) -> User:
    guest = next((user for user in now.users.values() if user.role == GUEST), None)
    if guest is None or guest.disabled:
        raise Unauthorized("Guest user is disabled, login please")
    return guest


Anyone = Annotated[None, Depends(Gate("anyone"))]
Visitor = Annotated[Caller, Depends(Gate("visitor"))]
Member = Annotated[Caller, Depends(Gate("member"))]
Admin = Annotated[Caller, Depends(Gate("admin"))]
Reader = Annotated[Caller, Depends(Gate("visitor", Right.READ))]
Writer = Annotated[Caller, Depends(Gate("visitor", Right.WRITE))]
Renamer = Annotated[Caller, Depends(Gate("visitor", Right.RENAME))]
Mover = Annotated[Caller, Depends(Gate("visitor", Right.MOVE))]
Copier = Annotated[Caller, Depends(Gate("visitor", Right.COPY))]
Downloader = Annotated[Caller, Depends(Gate("visitor", Right.OFFLINE_DOWNLOAD))]
Unpacker = Annotated[Caller, Depends(Gate("visitor", Right.DECOMPRESS))]
ArchiveReader = Annotated[Caller, Depends(Gate("visitor", Right.READ_ARCHIVES))]
Remover = Annotated[Caller, Depends(Gate("visitor", Right.DELETE))]


async def find_client_address(request: Request) -> str:
    """The address of the client; the forwarded one only behind a trusted proxy."""
    peer = request.client.host if request.client else ""
    forwarded = request.headers.get("x-forwarded-for", "")
    if forwarded and peer in config().trusted_proxies:
        return forwarded.rpartition(",")[2].strip()
    return peer


ClientAddress = Annotated[str, Depends(find_client_address)]


class Paging:
    """`page` from 1 and `per_page`, 0 for everything."""

    def __init__(self, page: int, per_page: int) -> None:
        self.page = max(page, 1)
        self.per_page = max(per_page, 0)

    @property
    def end(self) -> int | None:
        """How many rows there are up to the end of this page; None for all."""
        return min(self.page * self.per_page, MAX_ROWS) or None

    def slice(self, rows: list[Any]) -> list[Any]:
        """The rows of this page."""
        return list(self.iterate(rows))

    def iterate(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows of this page; what comes after it is not read."""
        start, stop = (self.page - 1) * self.per_page, self.page * self.per_page
        return islice(rows, min(start, sys.maxsize), min(stop, sys.maxsize) or None)


async def parse_paging(page: str = "", per_page: str = "") -> Paging:
    """The query's page; BadRequest when it is no number."""
    return Paging(_parse_number(page, 1), _parse_number(per_page, 0))


def _parse_number(text: str, default: int) -> int:
    number = parse_integer(text, signed=True) if text else default
    if number is None:
        raise BadRequest(f'strconv.ParseInt: parsing "{text[:40]}": invalid syntax')
    return number


Page = Annotated[Paging, Depends(parse_paging)]
