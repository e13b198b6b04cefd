"""Requests that say themselves under which name the service is to be reached."""

from __future__ import annotations

import pytest

from tests.contract.attacks.scene import Scene

HEADERS = [
    {"host": "evil.example"}, {"host": "evil.example:1"}, {"x-forwarded-host": "evil.example"},
    {"x-forwarded-host": "evil.example", "x-forwarded-proto": "https"}, {"forwarded": "host=evil.example"},
    {"x-original-host": "evil.example"},
]  # fmt: skip


@pytest.mark.parametrize("headers", HEADERS)
def test_no_header_of_a_stranger_gets_into_an_address(fresh: Scene, headers: dict[str, str]) -> None:
    requests = [
        (fresh.user, "/api/fs/get", "/f.txt"), (fresh.user, "/api/fs/list", "/"), (fresh.admin, "/api/fs/get", "/"),
        (fresh.admin, "/api/fs/link", f"{fresh.base}/f.txt"), (fresh.user, "/api/fs/archive/meta", "/f.txt"),
    ]  # fmt: skip
    for client, route, path in requests:
        for prefix in ("", "/openlist"):
            answer = client.http.post(f"{prefix}{route}", json={"path": path}, headers=headers)
            assert answer.status_code == 200
            assert "evil" not in answer.text
    entry = fresh.user.http.post("/api/fs/get", json={"path": "/f.txt"}, headers=headers).json()["data"]
    assert entry["raw_url"].startswith(f"{fresh.service.address}/")
