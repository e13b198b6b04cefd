"""Who may call a route, declared in its signature as `who: Admin`.

A gate finds the caller before the body is bound; the caller carries the one right that the route declared.
"""

from __future__ import annotations

import hmac
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Annotated, Any, Literal, TypeVar

from mangrove import configuration
from mangrove.configuration import users
from mangrove.core.http import find_client, parse_integer
from mangrove.core.problems import AccessDenied, BadRequest, Unauthorized
from mangrove.identity import tokens
from mangrove.identity.rights import ADMIN, GUEST, Caller, Right
from mangrove.records.accounts.users import User
from mangrove.web.address import find_client_address
from mangrove.web.framework import Depends, Header, Request

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
        request.state.caller = user.username
        if self.level == "member" and user.role == GUEST:
            raise AccessDenied("You are a guest")
        if self.level == "admin" and user.role != ADMIN:
            raise AccessDenied("You are not an admin")
        return Caller(user, self.declared_right, await find_client_address(request))


async def _authenticate(request: Request) -> User:
    token = tokens.read_header(request.headers)
    now = await configuration.get(partial(tokens.read_version, token) if token else None)
    if not token:
        return await _find_guest()
    permanent = now.settings.token
    if permanent and hmac.compare_digest(token.encode(), permanent.encode()):
        return await _find_administrator()
    return await tokens.user_of(token, users.find_by_name)


async def _find_administrator() -> User:
    found = await users.find_by_role(ADMIN)
    if found is None:  # its record is refused
        raise Unauthorized
    return found


async def _find_guest() -> User:
    guest = await users.find_by_role(GUEST)
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


def name_caller(caller: Caller | None, client_address: str) -> str:
    """To whom a share is counted: a user, or where a guest's request comes from."""
    return find_client(client_address) if caller is None or caller.is_guest else f"user {caller.user.id}"


async def find_present_code(otp_code: Annotated[str, Header(max_length=32)] = "", code: str = "") -> str:
    """The one-time code with which users prove that they still have the second factor they change: the header
    `Otp-Code`, or `code` in the query."""
    return otp_code or code


PresentCode = Annotated[str, Depends(find_present_code)]


class Paging:
    """`page` from 1 and `per_page`, 0 for everything."""

    def __init__(self, page: int, per_page: int) -> None:
        self.page = max(page, 1)
        self.per_page = max(per_page, 0)

    @property
    def start(self) -> int:
        """How many rows there are before this page."""
        return min((self.page - 1) * self.per_page, sys.maxsize)

    @property
    def end(self) -> int | None:
        """How many rows there are up to the end of this page; None for all."""
        return min(self.page * self.per_page, MAX_ROWS) or None

    def slice(self, rows: list[Any]) -> list[Any]:
        """The rows of this page."""
        return list(self.iterate(rows))

    def iterate(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows of this page; what comes after it is not read."""
        return islice(rows, self.start, min(self.page * self.per_page, sys.maxsize) or None)


async def parse_paging(page: str = "", per_page: str = "") -> Paging:
    """The query's page; BadRequest when it is no number."""
    return Paging(_parse_number(page, 1), _parse_number(per_page, 0))


def _parse_number(text: str, default: int) -> int:
    number = parse_integer(text, signed=True) if text else default
    if number is None:
        raise BadRequest(f'"{text[:40]}" is no integer')
    return number


Page = Annotated[Paging, Depends(parse_paging)]
