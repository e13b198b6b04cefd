"""An application with every way to ask for something and to fail, and requests to it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Annotated

from fastapi import Depends, Header, HTTPException, Query, Request
from pydantic import BaseModel, Field
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.types import ASGIApp

from mangrove.core.problems import AccessDenied, EntryNotFound, TooMany
from mangrove.web.api import Api
from mangrove.web.envelope import Reply, ok
from mangrove.web.flavours import ApiFlavour
from mangrove.web.framework import Body, Id, require_in_query
from mangrove.web.gates import Anyone, BaseUrl, ClientAddress, Gate, Page, RequestFlavour


class Door(Gate):
    """Lets in who says `please`."""

    async def __call__(self, request: Request) -> str:
        word = request.headers.get("authorization", "")
        if word != "please":
            raise AccessDenied(f"not with {word!r}")
        return word


class Inner(BaseModel):
    names: list[str] = []
    count: int = Field(1, ge=0, le=9)


class Example(Body):
    path: str = Field("", max_length=20)
    page: int = 1
    flag: bool = False
    inner: Inner = Inner()


class Filter(BaseModel):
    path: str = ""
    per_page: int = Field(0, ge=0)
    flag: bool = False
    tags: list[str] = []


Visitor = Annotated[str, Depends(Door("visitor"))]


async def find_second(who: Visitor, second: Annotated[int, Query(ge=1)] = 1) -> int:
    if second == 7:
        raise EntryNotFound("the second is not there")
    return second


def find_in_thread(third: int = 3) -> int:
    if third == 7:
        raise EntryNotFound("the third is not there")
    return third


RequiredText = Annotated[str, require_in_query("")]
Second = Annotated[int, Depends(find_second)]
Third = Annotated[int, Depends(find_in_thread)]


def make_app() -> ASGIApp:
    """A new one."""
    api = Api("example")
    add_bound(api)
    add_failing(api)
    return api.app


def add_bound(api: Api) -> None:
    @api.post("/api/body")
    async def take_body(who: Visitor, body: Example, request: Request, base_url: BaseUrl) -> Reply:
        return ok([body.model_dump(), request.headers.get("content-type"), base_url, dict(request.state._state)])

    @api.post("/api/open")
    async def take_open(who: Anyone, body: Example, flavour: RequestFlavour, client: ClientAddress) -> Reply:
        name = "document" if flavour is ApiFlavour.NATIVE else flavour
        return ok([body.model_dump(), name, client])

    @api.post("/api/list")
    def take_list(who: Visitor, body: list[Inner]) -> Reply:
        return ok([item.model_dump() for item in body])

    @api.get("/api/query")
    async def take_query(who: Visitor, query: Annotated[Filter, Query()]) -> Reply:
        return ok(query.model_dump())

    @api.get("/api/simple/{kind}/{number}")
    async def take_simple(
        who: Visitor, kind: str, number: int, id: Id, page: Page, second: Second, third: Third, text: RequiredText = "",
        many: Annotated[list[int] | None, Query()] = None, otp_code: Annotated[str, Header(max_length=3)] = "",
    ) -> Reply:  # fmt: skip
        end = min(page.page * page.per_page, sys.maxsize) or None  # of the page, None for all rows
        return ok([kind, number, id, page.start, end, second, third, text, many, otp_code])

    @api.get("/api/sync")
    def answer_in_thread(who: Anyone, third: Third, second: int = 5) -> Reply:
        return ok([third, second])

    @api.get("/f/{path:path}", response_class=Response)
    async def show(who: Anyone, path: str) -> Response:
        return PlainTextResponse(path)

    @api.get("/api/literal/one")
    async def take_literal(who: Anyone) -> Reply:
        return ok("literal")

    @api.get("/api/literal/{name}")
    async def take_name(who: Anyone, name: str) -> Reply:
        return ok(name)


def add_failing(api: Api) -> None:
    @api.get("/api/fail/{how}")
    @api.get("/fail/{how}", response_class=Response)
    async def fail(who: Anyone, how: str) -> Response:
        return await FAILURES[how]()

    @api.post("/api/read")
    async def read(who: Anyone, request: Request) -> Reply:
        return ok(len(await request.body()))


async def fail_as_problem() -> Response:
    raise TooMany("slowly")


async def fail_as_http() -> Response:
    raise HTTPException(418, "a teapot", {"x-tea": "1"})


async def fail_as_http_without_words() -> Response:
    raise HTTPException(404)


async def fail_unexpectedly() -> Response:
    raise ValueError("a secret")


async def fail_as_timeout() -> Response:
    raise TimeoutError


async def fail_as_group() -> Response:
    raise ExceptionGroup("many", [ValueError("a secret")])


async def leave() -> Response:
    raise ClientDisconnect


async def fail_while_sending() -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"a"
        await asyncio.sleep(0)
        raise ValueError("a secret")

    return StreamingResponse(pieces())


async def fail_as_problem_while_sending() -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"a"
        raise EntryNotFound

    return StreamingResponse(pieces())


async def answer_with_headers() -> Response:
    return PlainTextResponse("a", 203, {"vary": "Accept", "access-control-allow-origin": "https://here"})


async def answer_with_two_varies() -> Response:
    answer = RedirectResponse("/there", 302, {"vary": "Accept"})
    answer.headers.append("vary", "Accept-Encoding")
    return answer


FAILURES = {
    "problem": fail_as_problem, "http": fail_as_http, "silent": fail_as_http_without_words, "error": fail_unexpectedly,
    "timeout": fail_as_timeout, "group": fail_as_group, "leave": leave, "sending": fail_while_sending,
    "late": fail_as_problem_while_sending, "headers": answer_with_headers, "varies": answer_with_two_varies,
}  # fmt: skip
BODIES: Sequence[bytes] = (
    b"", b" ", b"{}", b"null", b"[]", b"1", b'"unreadable"', b"{", b"\xff", b'{"path": "a", "page": 2, "more": 1}',
    b'{"page": "1", "path": 5, "flag": "true", "inner": []}', b'{"path": null}', b'{"inner": {"count": 10}}',
    b'{"path": "' + b"a" * 21 + b'"}', b'{"inner": {"names": [1, 2, null]}}', b"x" * (70 << 10), b"1," * 60_000,
    b"[" * 60_000, b" " * (9 << 20), b'[{"count": 1}, {}]', b'[{"count": "1"}, 5]', b"NaN", b'{"page": 1.0}',
    b'{"page": 1e400}', b'{"page": ' + b"9" * 5000 + b"}",
)  # fmt: skip
QUERIES = (
    "", "?", "?id=1", "?id=x", "?id=%2B1", "?id=-1", "?id=1&id=x", "?id=1&page=x", "?id=1&page=2&per_page=10",
    "?id=1&second=0", "?id=x&second=0", "?id=1&second=7", "?second=7&third=x", "?id=1&third=7&text=x",
    "?id=1&many=1&many=2",
    "?id=1&many=x", "?id=1&many=", "?text=&id=1", "?id=1;page=2", "?id=1&unknown=2", "?id=%FF", "?=1&id=2",
)  # fmt: skip
FILTERS = (
    "", "?path=a&path=b", "?per_page=-1", "?per_page=x&flag=maybe", "?flag=1", "?flag=", "?tags=a&tags=b", "?tags=",
    "?per_page=", "?PATH=a", "?path=%00", "?none=1",
)  # fmt: skip

Asked = tuple[str, str, Sequence[bytes | None], dict[str, str]]


def list_requests() -> Iterator[Asked]:
    """Method, path, the pieces of the body, and headers."""
    please = {"authorization": "please"}
    for path in ("/api/body", "/openlist/api/body", "/api/open", "/openlist/api/open", "/api/list"):
        for body in BODIES:
            for headers in (please, {}):
                yield "POST", path, [body], headers
        yield "POST", path, [b"{", b"}"], please | {"content_type": "text/plain"}
        yield "POST", path, [b"{", None], please
        yield "POST", path, [None], please
        yield "POST", path, [b"{}"], please | {"content_length": "5", "origin": "https://there", "host": "here"}
    for kind in ("a/1", "a/x", "a%0Ab/1", "a/b/1", "/1"):
        for query in QUERIES:
            yield "GET", f"/api/simple/{kind}{query}", [b""], please | {"otp_code": "abc"}
    yield "GET", "/api/simple/a/1?id=1", [b""], please | {"otp_code": "abcd"}
    yield "GET", "/api/simple/a/x?id=1&second=0", [b""], {}
    for query in FILTERS:
        yield "GET", f"/api/query{query}", [b""], please
        yield "GET", f"/openlist/api/query{query}", [b""], {}
    for query in ("", "?third=x&second=y", "?third=7", "?second=6"):
        yield "GET", f"/api/sync{query}", [b""], {}
    for path in ("/f/", "/f/a/b", "/f/a\nb", "/f", "/api/literal/one", "/api/literal/two", "/api/literal/"):
        for method in ("GET", "HEAD", "POST", "OPTIONS"):
            yield method, path, [b""], {}
    for how in FAILURES:
        for path in (f"/api/fail/{how}", f"/fail/{how}", f"/openlist/api/fail/{how}"):
            yield "GET", path, [b""], {}
            yield "GET", path, [b""], {"origin": "https://there"}
    yield "POST", "/api/read", [b"a", b"b"], {}
    yield "POST", "/api/read", [b"a", None], {}
