"""FastAPI, imported so that its models are built when they are first used.

It makes 60 models of OpenAPI documents as it is imported, of which no request needs one, and building them is a seventh
of what that takes. Pydantic puts off what the base of all models says, so that does, for as long as the import takes.
Who imports FastAPI elsewhere, and before this, has the same without that gain.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import BaseModel


@contextmanager
def _build_later() -> Iterator[None]:
    config = BaseModel.model_config
    config["defer_build"] = True
    try:
        yield
    finally:
        del config["defer_build"]


with _build_later():
    from fastapi import Depends, FastAPI, Header, Query, Request
    from fastapi.dependencies.models import Dependant
    from fastapi.dependencies.utils import request_body_to_args, request_params_to_args
    from fastapi.exceptions import RequestValidationError
    from fastapi.params import Form
    from fastapi.routing import APIRoute

__all__ = [
    "APIRoute",
    "Dependant",
    "Depends",
    "FastAPI",
    "Form",
    "Header",
    "Query",
    "Request",
    "RequestValidationError",
    "request_body_to_args",
    "request_params_to_args",
]
