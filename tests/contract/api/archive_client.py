"""Helpers of the archive tests."""

from __future__ import annotations

from typing import Any

from tests.contract.api import fixtures
from tests.support.service import Service


def put_file(service: Service, folder: str, name: str, content: bytes) -> str:
    """An archive on the disk; its tree path."""
    (fixtures.disk(service, folder) / name).write_bytes(content)
    return f"{folder}/{name}"


def read_answer(answer: dict[str, Any]) -> tuple[int, str, Any]:
    return answer["code"], answer["message"], answer["data"]
