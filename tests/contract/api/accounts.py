"""Accounts for tests: made over HTTP, signed in from addresses of their own, and removed again."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
import pyotp

from tests.support.service import LIMITS, Client, HttpClient, Service

GUEST_DISABLED = (401, "Guest user is disabled, login please")
NOT_ADMIN = (403, "You are not an admin")


@dataclass(frozen=True, slots=True)
class Person:
    """A normal user; `client` is signed in."""

    id: int
    name: str
    password: str
    client: Client

    def login(self, service: Service, password: str | None = None, **body: Any) -> dict[str, Any]:
        """The envelope of a sign-in from an address that was not used before."""
        return stranger(service).post(
            "/api/auth/login", username=self.name, password=self.password if password is None else password, **body
        )

    def row(self, admin: Client) -> dict[str, Any]:
        """The record as the administrator sees it."""
        row: dict[str, Any] = admin.get("/api/admin/user/get", id=self.id)["data"]
        return row


class People:
    """Makes users; `close` removes those that are still there."""

    def __init__(self, service: Service, admin: Client) -> None:
        self.service = service
        self.admin = admin
        self.ids: list[int] = []

    def new(self, permission: int = 0, base_path: str = "/", password: str | None = None, **fields: Any) -> Person:
        name = fields.setdefault("username", uuid4().hex)
        password = uuid4().hex if password is None else password
        body = {"password": password, "permission": permission, "base_path": base_path, "role": 0}
        self.admin.ok("/api/admin/user/create", **(body | fields))
        id = find_id(self.admin, name)
        self.ids.append(id)
        token = get_data(stranger(self.service).post("/api/auth/login", username=name, password=password))["token"]
        return Person(id, name, password, Caller(self.service.address, token))

    def close(self) -> None:
        there = {row["id"] for row in self.admin.get("/api/admin/user/list")["data"]["content"]}
        for id in there.intersection(self.ids):
            self.admin.ok("/api/admin/user/delete", params={"id": id})


def find_id(admin: Client, name: str) -> int:
    rows = admin.get("/api/admin/user/list")["data"]["content"]
    return next(row["id"] for row in rows if row["username"] == name)


class Caller(Client):
    """A client at a loopback address of its own, so that its failures count for no other."""

    def __init__(self, address: str, token: str = "", **headers: str) -> None:
        self.address = address
        self.token = token
        self.source = f"127.{random.randint(2, 250)}.{random.randint(0, 250)}.{random.randint(2, 250)}"
        self.http = HttpClient(
            base_url=address,
            headers=({"authorization": token} if token else {}) | headers,
            timeout=60,
            transport=httpx.HTTPTransport(verify=False, local_address=self.source, limits=LIMITS),
            trust_env=False,
        )


def stranger(service: Service, **headers: str) -> Caller:
    """A caller without a token."""
    return Caller(service.address, **headers)


@contextmanager
def guest(admin: Client, **fields: Any) -> Iterator[Client]:
    """The guest, enabled for the time of the context; a client without a token."""
    row = next(user for user in admin.get("/api/admin/user/list")["data"]["content"] if user["role"] == 1)
    admin.ok("/api/admin/user/update", **(row | {"disabled": False} | fields))
    try:
        yield Caller(admin.address)
    finally:
        admin.ok("/api/admin/user/update", **row)


def make_static_hash(password: str) -> str:
    """Return the hash that clients send to login/hash."""
    return hashlib.sha256(f"{password}-https://github.com/alist-org/alist".encode()).hexdigest()


def get_refusal(answer: dict[str, Any]) -> tuple[int, str]:
    """Return code and message of a failure, which has no data."""
    assert answer["code"] != 200, answer
    assert answer["data"] is None, answer
    return answer["code"], answer["message"]


def get_data(answer: dict[str, Any]) -> Any:
    """The data of a success."""
    assert (answer["code"], answer["message"]) == (200, "success"), answer
    return answer["data"]


WRONG = (401, "Invalid username or password")
SECOND_FACTOR = (402, "Invalid 2FA code")
INVALIDATED = (401, "token is invalidated")


def get_me(service: Service, token: str) -> dict[str, Any]:
    return Caller(service.address, token).get("/api/me")


# The second factor
def enrol(person: Person) -> str:
    """Switch the second factor on, with the code of the step before; the secret. Retry if that step ended meanwhile."""
    secret = get_data(person.client.post("/api/auth/2fa/generate"))["secret"]
    while True:
        code = make_code(secret, -1)
        answer = person.client.post("/api/auth/2fa/verify", code=code, secret=secret)
        if answer["code"] == 200 or code == make_code(secret, -1):
            get_data(answer)
            return str(secret)


def wait_for_step(seconds: float) -> None:
    """Wait until a time step of codes has at least so many seconds left."""
    left = 30 - time.time() % 30
    if left < seconds:
        time.sleep(left)


def make_code(secret: str, steps: int = 0, seconds: float = 2) -> str:
    """The code of a time step near now, which has at least so many seconds left."""
    wait_for_step(seconds)
    return pyotp.TOTP(secret).at(int(time.time()) + 30 * steps)


def make_wrong_code(secret: str) -> str:
    right = {pyotp.TOTP(secret).at(int(time.time()) + 30 * step) for step in range(-3, 4)}
    return next(text for text in ("000000", "111111", "222222", "333333", "444444") if text not in right)


# The lock-out
def attempt(client: Client, name: str, password: str, **body: str) -> dict[str, Any]:
    return client.post("/api/auth/login", username=name, password=password, **body)
