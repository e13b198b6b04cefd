"""The doors: who may enter a route, declared in its signature as `who: Admin`.

A gate resolves the caller before the body is bound and hands on the one right the route declared.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Depends, Request

from mangrove.config import config
from mangrove.identity import tokens
from mangrove.identity.rights import ADMIN, GUEST, Caller, Right
from mangrove.problems import BadRequest, Denied, Unauthorized
from mangrove.records.users import User
from mangrove.site import snapshot

MOST_AT_ONCE = 1000  # rows asked for in one call
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
        user = await _user(request)
        if self.level == "member" and user.role == GUEST:
            raise Denied("You are a guest")
        if self.level == "admin" and user.role != ADMIN:
            raise Denied("You are not an admin")
        return Caller(user, self.declared_right)


async def _user(request: Request) -> User:
    now = await snapshot.fresh()
    token = request.headers.get("authorization", "")
    if not token:
        return _guest(now)
    permanent = now.settings.token
    if permanent and hmac.compare_digest(token.encode(), permanent.encode()):
        return next(user for user in now.users.values() if user.role == ADMIN)
    return await tokens.user_of(token, now.users)


def _guest(now: snapshot.Snapshot) -> User:
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


async def _dialect(request: Request) -> str:
    return str(request.scope.get("dialect", "document"))


async def _source(request: Request) -> str:
    """The address that asks; a forwarded one only when a trusted proxy hands it on."""
    peer = request.client.host if request.client else ""
    forwarded = request.headers.get("x-forwarded-for", "")
    if forwarded and peer in config().trusted_proxies:
        return forwarded.rpartition(",")[2].strip()
    return peer


Dialect = Annotated[str, Depends(_dialect)]
Source = Annotated[str, Depends(_source)]


class Paging:
    """`page` from 1 and `per_page`, 0 for everything."""

    def __init__(self, page: int, per_page: int) -> None:
        self.page = max(page, 1)
        self.per_page = max(per_page, 0)

    def cut(self, rows: list[Any]) -> list[Any]:
        """The rows of this page."""
        if not self.per_page:
            return rows
        start = (self.page - 1) * self.per_page
        return rows[start : start + self.per_page]

    @property
    def end(self) -> int | None:
        """How many rows there are up to the end of this page; None for all."""
        return min(self.page * self.per_page, MOST_AT_ONCE) or None

    def part(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows of this page; what comes after it is not read."""
        return islice(rows, (self.page - 1) * self.per_page, self.page * self.per_page or None)


async def _paging(page: str = "", per_page: str = "") -> Paging:
    return Paging(_whole(page, 1), _whole(per_page, 0))


def _whole(text: str, absent: int) -> int:
    if not text:
        return absent
    if not text.lstrip("+-").isdecimal() or len(text) > 18:
        raise BadRequest(f'strconv.ParseInt: parsing "{text[:40]}": invalid syntax')
    return int(text)


Page = Annotated[Paging, Depends(_paging)]
