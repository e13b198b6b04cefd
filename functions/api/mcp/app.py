"""The Model Context Protocol by stateless streamable HTTP, for tokens whose scope includes it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Annotated, Any
from urllib.parse import urlsplit

import orjson
from starlette.responses import Response

from mangrove import configuration
from mangrove.core.http import make_retry_after
from mangrove.core.limits import limits
from mangrove.core.problems import AccessDenied, FeatureNotAvailable, Problem, Unauthorized
from mangrove.identity import tokens
from mangrove.identity.app_passwords import is_app_password
from mangrove.identity.rights import Caller, Right
from mangrove.identity.scopes import TokenProtocol
from mangrove.protocols.mcp import messages
from mangrove.tree import callers
from mangrove.web.address import find_client_address
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.framework import Depends, Request, UnreadableBody, read_json
from mangrove.web.gates import Anyone, BaseUrl, Gate, name_caller

api = Api("mcp")
CHALLENGE = {"www-authenticate": 'Bearer realm="mangrove"'}


class McpGate(Gate):
    """Authenticates a request by a token for MCP; sessions and the permanent token are refused."""

    def __str__(self) -> str:
        return "mcp"

    async def __call__(self, request: Request) -> Caller:
        if not (await configuration.get()).settings.mcp_enabled:
            raise FeatureNotAvailable("MCP is switched off")
        text = tokens.read_header(request.headers)
        if not is_app_password(text):
            raise Unauthorized("a token for mcp is required")
        user, scope = await callers.find_token(text, TokenProtocol.MCP)
        request.state.caller = user.username
        return callers.make_caller(user, Right.READ, await find_client_address(request), scope)


McpCaller = Annotated[Caller, Depends(McpGate("visitor"))]


@api.post("/mcp", response_class=Response, include_in_schema=False)
async def receive(who: McpCaller, request: Request, base_url: BaseUrl) -> Response:
    """Answer one JSON-RPC message."""
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != urlsplit(base_url).netloc:
        raise AccessDenied("requests of pages of other sites are refused")
    async with AsyncExitStack() as stack:

        async def admit() -> None:
            caller = name_caller(who, await find_client_address(request))
            await stack.enter_async_context(limits().large_requests.hold(caller))

        message: Any = await read_json(request, admit)
        if isinstance(message, UnreadableBody):
            return _respond(messages.make_error(messages.PARSE_ERROR, message.problem.message))
        return _respond(await messages.answer(who, base_url, message, request.headers))


@api.get("/mcp", response_class=Response, include_in_schema=False)
async def refuse_stream(who: Anyone) -> Response:
    """Refuse a stream of messages: the service answers requests and sends nothing else."""
    return Response(status_code=405, headers={"allow": "POST"})


@api.route("DELETE", "/mcp", response_class=Response, include_in_schema=False)
async def refuse_end(who: Anyone) -> Response:
    """Refuse to end a session: there are none."""
    return Response(status_code=405, headers={"allow": "POST"})


def _respond(answer: messages.RpcAnswer) -> Response:
    if answer.message is None:
        return Response(status_code=answer.status)
    return Response(orjson.dumps(answer.message), answer.status, media_type="application/json")


async def answer_problem(request: Request, problem: Problem) -> Response:
    """Answer a request that the gate refuses, with the HTTP status of the problem."""
    headers = make_retry_after(problem.retry_after) | (CHALLENGE if problem.code == 401 else {})
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": problem.message}}
    return Response(orjson.dumps(body), problem.code, headers, media_type="application/json")


api.app.set_handler(Problem, answer_problem)
app = api.app
handler = make_lambda_handler(app)
