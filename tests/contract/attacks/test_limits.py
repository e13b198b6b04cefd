"""The table of limits is that of the code, and its rows hold over the wire."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from deployment.generate.limits import LIST, Limit, generate_reference
from tests.contract.api.dav_client import make_basic
from tests.contract.attacks.scene import Scene
from tests.support.service import ADMIN_PASSWORD, Client

ROOT = Path(__file__).resolve().parents[3]
TESTED_BY = {
    "standalone.connections:": "tests/unit/standalone/test_connections.py",
    "protocols.sftp": "tests/unit/protocols/test_sftp_bounds.py",
    "core.limits:": "tests/unit/test_limits.py",
    "protocols.webdav": "tests/unit/protocols",
    "records.webdav": "tests/unit/records",
    "identity.": "tests/unit/identity",
    "records.share_uploads": "tests/unit/records",
    "records.open_uploads": "tests/unit/records",
    "tree.sharing": "tests/unit/tree",
    "archives.": "tests/unit/archives",
    "tools.": "tests/unit/tools",
    "drivers.local": "tests/unit/drivers/local",
}
"""Beginning of a constant → where rows are tested that take more than one request."""

Probe = Callable[[Client, int], bool]


def is_ok(answer: Mapping[str, Any]) -> bool:
    assert answer["code"] in (200, 400, 404, 413, 500), answer
    return answer["code"] == 200


def send_head(admin: Client, size: int) -> bool:
    url = urlsplit(str(admin.http.base_url))
    head = f"GET /ping HTTP/1.1\r\nHost: {url.netloc}\r\nConnection: close\r\nx: "
    measured = len("/ping") + len(f"Host{url.netloc}Connectioncloses") + 12
    with socket.create_connection((url.hostname, url.port), 60) as connection:
        connection.sendall(head.encode() + b"y" * (size - measured) + b"\r\n\r\n")
        return connection.recv(100).startswith(b"HTTP/1.1 200")


def send_json(client: Client, path: str, body: bytes, size: int) -> bool:
    answer = client.http.post(path, content=body + b" " * (size - len(body)))
    return answer.json()["code"] != 413


def send_dav(admin: Client, method: str, body: str, **headers: str) -> bool:
    sent = {"authorization": make_basic("admin", ADMIN_PASSWORD)} | headers
    with httpx.Client(base_url=admin.http.base_url, headers=sent, timeout=60) as http:
        return http.request(method, "/dav/", content=body).status_code == 207


def propfind(admin: Client, names: str) -> bool:
    return send_dav(admin, "PROPFIND", f'<propfind xmlns="DAV:"><prop>{names}</prop></propfind>', depth="0")


def save_setting(admin: Client, value: str) -> bool:
    return is_ok(admin.http.post("/api/admin/setting/save", json=[{"key": "announcement", "value": value}]).json())


def create_user(admin: Client, name: str, password: str) -> bool:
    answer = admin.post("/api/admin/user/create", username=name, password=password, base_path="/", permission=0)
    if is_ok(answer):
        rows = admin.get("/api/admin/user/list", per_page=1000)["data"]["content"]
        id = next(row["id"] for row in rows if row["username"] == name)
        admin.ok("/api/admin/user/delete", params={"id": id})
        return True
    return False


WIRE: Mapping[str, Probe] = {
    "standalone.connections:ConnectionLimits.head_bytes": send_head,
    "web.framework:MAX_JSON_BYTES": lambda admin, size: send_json(admin, "/api/fs/get", b'{"path":"/"}', size),
    "web.framework:MAX_UNGATED_JSON_BYTES": lambda admin, size: send_json(
        Client(str(admin.http.base_url)), "/api/auth/login", b'{"username":"x","password":"y"}', size
    ),
    "core.paths:MAX_NAME_BYTES": lambda admin, size: is_ok(admin.post("/api/fs/mkdir", path="/files/" + "n" * size)),
    "identity.names:MAX_NAME_LENGTH": lambda admin, size: create_user(admin, "u" * size, "password"),
    "identity.passwords:MAX_PASSWORD_LENGTH": lambda admin, size: create_user(admin, "somebody", "p" * size),
    "configuration.settings:MAX_VALUE_LENGTH": lambda admin, size: save_setting(admin, "v" * size),
    "search.words:MAX_KEYWORDS_LENGTH": lambda admin, size: is_ok(
        admin.post("/api/fs/search", parent="/", keywords="k" * size, scope=0, page=1, per_page=1)
    ),
    "search.words:MAX_WORDS": lambda admin, count: is_ok(
        admin.post("/api/fs/search", parent="/", keywords=" ".join("k" * count), scope=0, page=1, per_page=1)
    ),
    "protocols.webdav.bodies:MAX_NAMES_PER_PROPFIND": lambda admin, count: propfind(
        admin, "".join(f"<n{number}/>" for number in range(count))
    ),
    "protocols.webdav.bodies:MAX_NAME_CHARACTERS": lambda admin, size: propfind(admin, f"<{'n' * size}/>"),
    "protocols.webdav.bodies:MAX_NAMESPACE_CHARACTERS": lambda admin, size: propfind(
        admin, f'<x:n xmlns:x="{"u" * size}"/>'
    ),
    "protocols.webdav.bodies:MAX_BODY_BYTES": lambda admin, size: propfind(
        admin, "<n/>".ljust(size - len('<propfind xmlns="DAV:"><prop></prop></propfind>'))
    ),
}  # fmt: skip


def test_the_page_of_limits_is_up_to_date() -> None:
    for path, text in generate_reference().items():
        assert (ROOT / path).read_text() == text


@pytest.mark.parametrize("limit", LIST, ids=lambda limit: limit.constant)
def test_a_row_has_a_positive_bound(limit: Limit) -> None:
    assert limit.read() > 0


def test_each_row_is_named_once() -> None:
    constants = [limit.constant for limit in LIST]
    assert len(set(constants)) == len(constants)
    assert WIRE.keys() <= set(constants)
    for path in TESTED_BY.values():
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("constant", WIRE)
def test_the_largest_input_is_taken_and_one_more_is_not(scene: Scene, admin: Client, constant: str) -> None:
    bound = int(next(limit for limit in LIST if limit.constant == constant).read())
    probe = WIRE[constant]
    assert probe(admin, bound)
    assert not probe(admin, bound + 1)
