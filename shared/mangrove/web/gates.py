"""Parameters of endpoint signatures: the right to call a route, the page of a list, the source of the request.

`who: Admin` declares a gate. It finds the caller before the body is bound; the caller carries the declared right.
"""

from __future__ import annotations

import hmac
import sys
from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import Annotated, Any, Literal, TypeVar

from mangrove import configuration
from mangrove.configuration import users
from mangrove.core.http import find_client, parse_integer
from mangrove.core.problems import AccessDenied, BadRequest, Unauthorized
from mangrove.core.shared_memory import session_times
from mangrove.identity import tokens
from mangrove.identity.app_passwords import is_app_password
from mangrove.identity.rights import ADMIN, GUEST, SHARE_VISITOR, Caller, GuestDisabled, Right
from mangrove.identity.scopes import TokenProtocol, TokenScope
from mangrove.records.users import User
from mangrove.tree import callers
from mangrove.web.address import find_base_url, find_client_address
from mangrove.web.flavours import ApiFlavour, find_flavour
from mangrove.web.framework import Depends, Header, Query, Request
from mangrove.web.sessions import note_use

Row = TypeVar("Row")
Level = Literal["anyone", "visitor", "member", "admin"]


class Gate:
    """A declared right. As a dependency it returns the Caller, or None for `anyone`."""

    def __init__(
        self,
        level: Level,
        declared_right: Right = Right.READ,
        *,
        accepts_tokens: bool = True,
        opens_shares: bool = False,
    ) -> None:
        self.level = level
        self.declared_right = declared_right
        self.accepts_tokens = accepts_tokens  # with a scope that allows the rest
        self.opens_shares = opens_shares  # a stranger is let in where the guest is disabled, and opens share links only

    def __str__(self) -> str:
        if self.declared_right is Right.READ:
            return self.level
        return f"{self.level}:{(self.declared_right.name or '').lower()}"

    async def __call__(self, request: Request) -> Any:
        if self.level == "anyone":
            return None
        user, scope = await self._authenticate(request)
        request.state.caller = user.username
        caller = callers.make_caller(user, self.declared_right, await find_client_address(request), scope)
        if scope is not None and not self.accepts_tokens:
            raise AccessDenied("this request needs a session: a token cannot make it")
        if self.level == "member" and caller.is_guest:
            raise AccessDenied("You are a guest")
        if self.level == "admin" and not caller.is_admin:
            raise AccessDenied("You are not an admin")
        return caller

    async def _authenticate(self, request: Request) -> tuple[User, TokenScope | None]:
        try:
            return await _authenticate(request)
        except GuestDisabled:
            if not self.opens_shares:
                raise
            request.state.is_share_visitor = True
            return SHARE_VISITOR, None


async def _authenticate(request: Request) -> tuple[User, TokenScope | None]:
    text = tokens.read_header(request.headers)
    if is_app_password(text):
        await configuration.get()
        return await callers.find_token(text, TokenProtocol.API)
    return await _find_session_user(request, text), None


async def _find_session_user(request: Request, token: str) -> User:
    now = await configuration.get(partial(tokens.read_version, token) if token else None)
    if not token:
        return await _find_guest()
    permanent = now.settings.token
    if permanent and hmac.compare_digest(token.encode(), permanent.encode()):
        return await _find_administrator()
    user = await tokens.user_of(token, users.find_by_name)
    session_times().record(token)
    await note_use(request, token)
    return user


async def _find_administrator() -> User:
    administrator = await users.find_by_role(ADMIN)
    if administrator is None:  # the record was refused
        raise Unauthorized
    return administrator


async def _find_guest() -> User:
    guest = await users.find_by_role(GUEST)
    if guest is None or guest.disabled:
        raise GuestDisabled
    return guest


Anyone = Annotated[None, Depends(Gate("anyone"))]
Sharer = Annotated[Caller, Depends(Gate("member", accepts_tokens=False))]
AccountOwner = Annotated[Caller, Depends(Gate("visitor", accepts_tokens=False))]
Member = Annotated[Caller, Depends(Gate("member"))]
Admin = Annotated[Caller, Depends(Gate("admin"))]
Reader = Annotated[Caller, Depends(Gate("visitor", Right.READ))]
ShareReader = Annotated[Caller, Depends(Gate("visitor", Right.READ, opens_shares=True))]
ShareArchiveReader = Annotated[Caller, Depends(Gate("visitor", Right.READ_ARCHIVES, opens_shares=True))]
Writer = Annotated[Caller, Depends(Gate("visitor", Right.WRITE))]
ShareWriter = Annotated[Caller, Depends(Gate("visitor", Right.WRITE, opens_shares=True))]
Renamer = Annotated[Caller, Depends(Gate("visitor", Right.RENAME))]
Mover = Annotated[Caller, Depends(Gate("visitor", Right.MOVE))]
Copier = Annotated[Caller, Depends(Gate("visitor", Right.COPY))]
Downloader = Annotated[Caller, Depends(Gate("visitor", Right.OFFLINE_DOWNLOAD))]
Unpacker = Annotated[Caller, Depends(Gate("visitor", Right.DECOMPRESS))]
Remover = Annotated[Caller, Depends(Gate("visitor", Right.DELETE))]


def name_caller(caller: Caller | None, client_address: str) -> str:
    """Return the name under which a concurrency limit counts a caller: the user, or the source of a guest's request."""
    return find_client(client_address) if caller is None or caller.is_guest else f"user {caller.user.id}"


CodeHeader = Annotated[str, Header(max_length=32, description="A current code of the second factor.")]
CodeText = Annotated[str, Query(description="A current code of the second factor, if the header is absent.")]


ShareSession = Annotated[
    str, Header(alias="X-Share-Session", max_length=128, description="A random text of a visitor who sends files.")
]


async def find_present_code(otp_code: CodeHeader = "", code: CodeText = "") -> str:
    """Return the one-time code in a header or the query, which proves that a user still has the second factor."""
    return otp_code or code


class Paging:
    """`page` from 1 and `per_page`, 0 for all rows."""

    def __init__(self, page: int, per_page: int) -> None:
        self.page = max(page, 1)
        self.per_page = max(per_page, 0)

    @property
    def start(self) -> int:
        """The number of rows before this page."""
        return min((self.page - 1) * self.per_page, sys.maxsize)

    def slice(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows of this page; later rows are not read."""
        return list(islice(rows, self.start, min(self.page * self.per_page, sys.maxsize) or None))


PageText = Annotated[str, Query(description="Page number, from 1.")]
PageSizeText = Annotated[str, Query(description="Entries per page; 0 for all on one page.")]


async def parse_paging(page: PageText = "", per_page: PageSizeText = "") -> Paging:
    """Parse the page in the query. Raise BadRequest if it is not a number."""
    return Paging(_parse_number(page, 1), _parse_number(per_page, 0))


def _parse_number(text: str, default: int) -> int:
    number = parse_integer(text, signed=True) if text else default
    if number is None:
        raise BadRequest(f'"{text[:40]}" is no integer')
    return number


PresentCode = Annotated[str, Depends(find_present_code)]
Page = Annotated[Paging, Depends(parse_paging)]
RequestFlavour = Annotated[ApiFlavour, Depends(find_flavour)]
ClientAddress = Annotated[str, Depends(find_client_address)]


async def _find_base_url(request: Request, flavour: RequestFlavour) -> str:
    return await find_base_url(request, flavour)


BaseUrl = Annotated[str, Depends(_find_base_url)]
