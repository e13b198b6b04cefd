"""An API of one route, whose body is a model: it reads one record and writes one log line."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools import Logger
from fastapi import FastAPI, Query
from mangum import Mangum
from pydantic import BaseModel

from bench.floors.worker import read


class Body(BaseModel):
    """The body of a request."""

    name: str = ""
    page: int = 1


app = FastAPI()


@app.get("/{path:path}")
async def get(path: str, page: int = Query(1)) -> dict[str, Any]:
    """Return the answer to every request."""
    Logger().info("read")
    return {"found": read(), "page": page}


@app.post("/{path:path}")
async def post(path: str, body: Body) -> dict[str, Any]:
    """Return the answer to every request with a body."""
    return body.model_dump()


handler = Mangum(app, lifespan="off")
