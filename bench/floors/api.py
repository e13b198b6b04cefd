"""An API of one route, whose body is a model: it reads one record and writes one log line.

FastAPI reads the signature of the route. As in the service, it does not answer requests.
"""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools import Logger
from fastapi import Query
from fastapi.routing import APIRoute
from mangum import Mangum
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from bench.floors.worker import read


class Body(BaseModel):
    """The body of a request."""

    name: str = ""
    page: int = 1


def describe(path: str, body: Body, page: int = Query(1)) -> dict[str, Any]:
    """Return the body: a signature for FastAPI."""
    return body.model_dump()


route = APIRoute("/{path:path}", describe, methods=["POST"])


async def get(request: Request) -> JSONResponse:
    """Return the answer to every request."""
    Logger().info("read")
    return JSONResponse({"found": read(), "page": 1})


handler = Mangum(Starlette(routes=[Route("/{path:path}", get)]), lifespan="off")
