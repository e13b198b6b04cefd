"""Abuse of the lock-out: a victim is not locked out of known places, and a storm of sign-ins blocks no other client."""

from __future__ import annotations

import asyncio
import json
import select
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest
from argon2 import PasswordHasher

from functions.api.auth.app import app
from mangrove.core import runtime
from mangrove.core.limits import MAX_WAITING_SIGN_INS, SIGN_IN_CONCURRENCY
from mangrove.identity import lockout, passwords, tokens
from mangrove.identity.passwords import Hasher
from mangrove.identity.rights import ADMIN
from mangrove.records import users
from mangrove.standalone.gateway import Gateway
from tests.support.service import Client, Service

SIGN_INS = 300  # at the same time, from one address
STORM = 70  # sign-ins at the same time, each from an address of its own
REFUSED_SIGN_INS = SIGN_INS - SIGN_IN_CONCURRENCY - MAX_WAITING_SIGN_INS
OWN_ADDRESS, OTHER_ADDRESS = "192.0.2.1", "198.51.100.1"


def sign_in(password: str, *sources: str) -> list[int]:
    """The codes of sign-ins as `ann`, one after the other, as a function or the service answers them."""

    async def send() -> list[int]:
        codes = []
        for source in sources:
            transport = httpx.ASGITransport(app, client=(source, 1234))
            async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
                body = {"username": "ann", "password": password}
                codes.append((await client.post("/api/auth/login", json=body)).json()["code"])
        return codes

    return asyncio.run(send())


@pytest.fixture
def ann(records: None) -> None:
    """An account; passwords are hashed fast, since hundreds are tried."""
    hasher = Hasher()
    hasher.argon2 = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
    runtime.put(Hasher, hasher)
    users.create(username="ann", password_hash=passwords.hash_password("secret"))


def test_sign_ins_from_many_addresses_do_not_lock_out_known_source(ann: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lockout, "MAX_FAILURES_PER_SUBJECT", 20)
    assert sign_in("secret", OWN_ADDRESS) == [200]
    codes = sign_in("wrong", *(f"10.0.0.{number}" for number in range(21)))
    assert codes == [401] * 20 + [429], "what strangers may try is bounded over all addresses"
    assert sign_in("secret", OTHER_ADDRESS) == [429]
    assert sign_in("secret", OWN_ADDRESS) == [200]
    assert sign_in("wrong", *[OWN_ADDRESS] * 6) == [401] * 5 + [429], "the known place has its own bound"


def test_the_addresses_of_one_ipv6_network_are_one_attacker(ann: None) -> None:
    codes = sign_in("wrong", *(f"2001:db8::{number:x}" for number in range(1, 8)))
    assert codes == [401] * 5 + [429] * 2
    assert sign_in("secret", "2001:db8:0:1::1") == [200]


def read_refusal(answer: httpx.Response) -> tuple[int, str | None]:
    """Return the code of an answer, and after how many seconds to try again."""
    return answer.json()["code"], answer.headers.get("retry-after")


class WaitingHasher(Hasher):
    """Compares nothing before it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def verify(self, hashed: str, text: str) -> bool:
        assert self.go.wait(120)
        return False


def test_sign_in_storm_refuses_with_retry_time(ann: None, tmp_path: Path) -> None:
    """As the service answers them; in the cloud a function's process has one request at a time."""
    token = {"authorization": tokens.issue(users.create(username="admin", password_hash="x", role=ADMIN))}
    hasher = WaitingHasher()
    runtime.put(Hasher, hasher)

    async def story() -> list[httpx.Response]:
        transport = httpx.ASGITransport(Gateway(), client=("203.0.113.9", 1234))
        async with httpx.AsyncClient(transport=transport, base_url="http://service", headers=token) as client:
            mount = {"mount_path": "/m", "driver": "Local", "addition": json.dumps({"root_folder_path": str(tmp_path)})}
            assert (await client.post("/api/admin/storage/create", json=mount)).json()["code"] == 200
            body = {"username": "ann", "password": "wrong"}
            storm = [asyncio.ensure_future(client.post("/api/auth/login", json=body)) for _ in range(SIGN_INS)]
            async with asyncio.timeout(120):
                while sum(sign_in.done() for sign_in in storm) < REFUSED_SIGN_INS:  # noqa: ASYNC110 - of 300 tasks
                    await asyncio.sleep(0.01)
            try:
                for _ in range(20):
                    assert (await client.get("/ping")).text == "pong"
                    assert (await client.post("/api/fs/list", json={"path": "/m"})).json()["code"] == 200
                    assert sum(sign_in.done() for sign_in in storm) == REFUSED_SIGN_INS
            finally:
                hasher.go.set()
            return list(await asyncio.gather(*storm))

    answers = asyncio.run(story())
    message = "too many sign-ins at the same time, try again later"
    full = [answer for answer in answers if answer.json()["message"] == message]
    assert len(full) == REFUSED_SIGN_INS
    assert {(answer.status_code, *read_refusal(answer)) for answer in full} == {(200, 429, "5")}
    codes = Counter(read_refusal(answer) for answer in answers if answer not in full)
    assert set(codes) <= {(401, None), (429, str(lockout.LOCK_SECONDS))}, "the others were judged one by one"


@contextmanager
def storm(address: str) -> Iterator[list[socket.socket]]:
    """Connections on each of which an answer to a wrong sign-in is awaited."""
    host, port = urlsplit(address).hostname, urlsplit(address).port
    assert host and port
    with ExitStack() as stack:
        connections = []
        for number in range(STORM):
            source = (f"127.77.{number // 200}.{number % 200 + 1}", 0)
            connections.append(stack.enter_context(socket.create_connection((host, port), 60, source)))
        for connection in connections:
            body = json.dumps({"username": uuid4().hex, "password": "wrong"})
            head = f"POST /api/auth/login HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {len(body)}"
            connection.sendall(f"{head}\r\n\r\n{body}".encode())
        yield connections


def read_code(connection: socket.socket) -> int:
    """The code of the envelope that comes."""
    with connection.makefile("rb") as answer:
        code: int = json.loads(answer.read().partition(b"\r\n\r\n")[2])["code"]
    return code


@pytest.mark.long
def test_a_storm_of_sign_ins_lets_the_administrator_work(service: Service, admin: Client) -> None:
    with storm(service.address) as connections:
        assert admin.get("/api/admin/user/list")["code"] == 200
        answered = select.select(connections, [], [], 0)[0]
        assert len(answered) < STORM / 4, "the administrator's requests waited for the storm"
        assert {read_code(connection) for connection in connections} == {401}
