"""Helpers of the settings tests."""

from __future__ import annotations

from typing import Any

from tests.contract.api.accounts import get_data
from tests.support.service import Client

PUBLIC, PRIVATE, READONLY, DEPRECATED = range(4)
TOKEN = r"mangrove-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}[A-Za-z0-9]{64}"


def list_settings(admin: Client, **query: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = get_data(admin.get("/api/admin/setting/list", **query))
    return rows


def get_value(admin: Client, key: str) -> str:
    return str(get_data(admin.get("/api/admin/setting/get", key=key))["value"])


def save(client: Client, *rows: Any) -> dict[str, Any]:
    return client.envelope(client.http.post("/api/admin/setting/save", json=list(rows)))


def make_row(key: str, text: str) -> dict[str, str]:
    return {"key": key, "value": text}
