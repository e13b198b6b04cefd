"""The OpenAPI document. `make check` proves that the file is up to date."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).parents[2] / "openapi.json"


@cache
def get_document() -> dict[str, Any]:
    """Return the document. Callers do not change it."""
    document: dict[str, Any] = json.loads(DOCUMENT.read_text())
    return document
