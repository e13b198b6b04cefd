"""Requests per second."""

from __future__ import annotations

from typing import Any

from bench.load import Rate, measure_rate
from bench.rows import Row, Workspace, row
from bench.subjects import Subject
from tests.support.service import ADMIN_PASSWORD

ENTRIES = 1000


def _measure(workspace: Workspace, subject: Subject, path: str, /, is_checked: bool = False, **body: Any) -> Rate:
    if path.startswith("/api/"):
        subject.ask(path, **body)  # which raises unless it succeeds
    return measure_rate(
        subject.address, path, subject.token, body or None, workspace.seconds, workspace.folder, is_checked
    )


def measure_ping(workspace: Workspace, subject: Subject) -> Rate:
    return _measure(workspace, subject, "/ping")


def measure_me(workspace: Workspace, subject: Subject) -> Rate:
    return _measure(workspace, subject, "/api/me")


def measure_page(workspace: Workspace, subject: Subject) -> Rate:
    path = subject.mount_local(workspace.make_files(ENTRIES))
    return _measure(workspace, subject, "/api/fs/list", path=path, page=1, per_page=50)


@row("ping", "req/s", least=0.5)
def ping(workspace: Workspace, subject: Subject) -> float:
    return measure_ping(workspace, subject).per_second


@row("me", "req/s", least=0.4)
def me(workspace: Workspace, subject: Subject) -> float:
    return measure_me(workspace, subject).per_second


@row("login (argon2id on purpose)", "req/s", least=60, absolute=True)
def login(workspace: Workspace, subject: Subject) -> float:
    """Measure sign-ins. Check every answer, because a refusal is fast."""
    credentials = {"username": "admin", "password": ADMIN_PASSWORD}
    return _measure(workspace, subject, "/api/auth/login", is_checked=True, **credentials).per_second


@row("list of 1,000, warm", "req/s", least=10)
def whole_list(workspace: Workspace, subject: Subject) -> float:
    path = subject.mount_local(workspace.make_files(ENTRIES))
    return _measure(workspace, subject, "/api/fs/list", path=path, page=1, per_page=0).per_second


@row("page of 50, warm", "req/s", least=5)
def page(workspace: Workspace, subject: Subject) -> float:
    return measure_page(workspace, subject).per_second


@row("get one entry, warm", "req/s", least=4)
def get_entry(workspace: Workspace, subject: Subject) -> float:
    path = subject.mount_local(workspace.make_files(ENTRIES))
    return _measure(workspace, subject, "/api/fs/get", path=f"{path}/file 000500.txt").per_second


ROWS: tuple[Row, ...] = (ping, me, login, whole_list, page, get_entry)
