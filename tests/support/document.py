"""The OpenAPI document of the code, built once: that takes a second."""

from __future__ import annotations

from functools import cache
from typing import Any

from mangrove.standalone import docs


@cache
def get_document() -> dict[str, Any]:
    """Not to be changed by who gets it."""
    return docs.build_document()
