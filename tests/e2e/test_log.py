"""The content of the service's log, and the secrets that it must not have."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

from tests.support.service import ADMIN_PASSWORD, Client, Service, start_service
from tests.support.waiting import wait_until


def test_the_log_has_paths_but_no_secrets(service: Service, admin: Client, folder: str) -> None:
    user, password, sign, code = (uuid4().hex for _ in range(4))
    log = service.data.parent / f"{service.data.name}.log"
    before = len(log.read_text())
    admin.ok("/api/admin/user/create", username=user, password=password, base_path="/", role=0)
    try:
        own = service.client(user, password)
        static = f"{password}static"
        own.post("/api/auth/login/hash", username=user, password=static, otp_code=code)
        own.post("/api/fs/list", path=folder, password=f"{password}folder")
        own.http.get(f"/d{folder}/x?sign={sign}:0&type=thumb")
        own.http.get(f"/p{folder}/x", params={"sign": f"{sign}:0"}, headers={"cookie": f"token={sign}"})
        assert admin.put(f"{folder}/x", b"x", x_file_sha256=sign)["code"] == 400
        last = f"/{uuid4().hex}"
        own.http.get(last)
        words = (last, '"PUT"')  # by two processes, it may be
        wait_until(lambda: all(word in log.read_text()[before:] for word in words))
        text = log.read_text()[before:].rpartition("\n")[0]  # of complete lines
        assert f"/d{folder}/x" in text
        secret = [password, sign, code, own.token, admin.token, ADMIN_PASSWORD, "sign=", "?"]
        assert [word for word in secret if word in text] == []
        facts = [json.loads(line)["facts"] for line in text.splitlines() if '"request"' in line]
        (latest,) = [fact for fact in facts if fact["path"] == last]
        assert {"method", "path", "status", "code", "ms", "request_id"} == set(latest)
        assert (latest["method"], latest["status"]) == ("GET", 404)
        (put,) = [fact for fact in facts if fact["method"] == "PUT"]
        assert (put["status"], put["code"]) == (200, 400)
    finally:
        id = {row["username"]: row["id"] for row in admin.get("/api/admin/user/list")["data"]["content"]}[user]
        admin.ok("/api/admin/user/delete", params={"id": id})


def read_paths(service: Service) -> list[str]:
    text = (service.data.parent / f"{service.data.name}.log").read_text()
    return [json.loads(line)["facts"]["path"] for line in text.splitlines() if '"request"' in line]


def test_no_line_is_lost_when_the_service_ends(tmp_path: Path) -> None:
    service = start_service(tmp_path / "data", MANGROVE_ACCESS_LOG="errors")
    client = service.anonymous()
    assert client.http.get("/ping").text == "pong"
    for number in range(100):
        client.http.get(f"/none/{number}")
    service.stop()
    assert read_paths(service) == [f"/none/{number}" for number in range(100)]
