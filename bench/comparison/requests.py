"""Requests per second."""

from __future__ import annotations

from typing import Any

from bench.comparison.rows import Place, row
from bench.comparison.subjects import Subject
from bench.load import Rate, measure_rate
from tests.service import ADMIN_PASSWORD

ENTRIES = 1000


def _measure(place: Place, subject: Subject, path: str, /, is_checked: bool = False, **body: Any) -> Rate:
    if path.startswith("/api/"):
        subject.ask(path, **body)  # which raises unless it succeeds
    return measure_rate(subject.address, path, subject.token, body or None, place.seconds, place.folder, is_checked)


def measure_ping(place: Place, subject: Subject) -> Rate:
    return _measure(place, subject, "/ping")


def measure_me(place: Place, subject: Subject) -> Rate:
    return _measure(place, subject, "/api/me")


def measure_page(place: Place, subject: Subject) -> Rate:
    path = subject.mount_local(place.make_files(ENTRIES))
    return _measure(place, subject, "/api/fs/list", path=path, page=1, per_page=50)


@row("ping", "req/s", least=0.5)
def ping(place: Place, subject: Subject) -> float:
    return measure_ping(place, subject).per_second


@row("me", "req/s", least=0.4)
def me(place: Place, subject: Subject) -> float:
    return measure_me(place, subject).per_second


@row("login (argon2id on purpose)", "req/s", least=60, absolute=True)
def login(place: Place, subject: Subject) -> float:
    """Each answer is looked at: one that refuses is fast."""
    credentials = {"username": "admin", "password": ADMIN_PASSWORD}
    return _measure(place, subject, "/api/auth/login", is_checked=True, **credentials).per_second


@row("list of 1,000, warm", "req/s", least=10)
def whole_list(place: Place, subject: Subject) -> float:
    path = subject.mount_local(place.make_files(ENTRIES))
    return _measure(place, subject, "/api/fs/list", path=path, page=1, per_page=0).per_second


@row("page of 50, warm", "req/s", least=5)
def page(place: Place, subject: Subject) -> float:
    return measure_page(place, subject).per_second


@row("get one entry, warm", "req/s", least=4)
def one(place: Place, subject: Subject) -> float:
    path = subject.mount_local(place.make_files(ENTRIES))
    return _measure(place, subject, "/api/fs/get", path=f"{path}/file 000500.txt").per_second
