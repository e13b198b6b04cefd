"""Folder passwords are not guessed: wrong ones are counted by folder and address, over all processes and protocols."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mangrove.core import runtime
from mangrove.core.problems import TooMany
from mangrove.identity.lockout import FOLDERS, LOCK_SECONDS, MAX_FAILURES_PER_PAIR
from mangrove.records.store.base import Connections
from tests.e2e.processes import mount
from tests.support.service import Service, run_forked

WRONG = (403, "password is incorrect or you have no permission", None)
LOCKED = (429, FOLDERS.message, str(LOCK_SECONDS))
RIGHT = "open sesame"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service of two processes with a guest who may use WebDAV."""
    with run_forked(tmp_path_factory.mktemp("guarded") / "data", MANGROVE_PROCESSES="2") as service:
        admin = service.client()
        guest = next(user for user in admin.get("/api/admin/user/list")["data"]["content"] if user["role"] == 1)
        admin.ok("/api/admin/user/update", **guest | {"disabled": False, "permission": 0x7FFF & ~2})
        yield service


@pytest.fixture
def folder(guarded: Service, tmp_path: Path) -> str:
    """A folder whose password is RIGHT, with a file in it."""
    admin = guarded.client()
    (tmp_path / "secret.txt").write_text("x")
    path, _ = mount(admin, "Local", root_folder_path=str(tmp_path))
    admin.ok("/api/admin/meta/create", path=path, password=RIGHT, p_sub=True)
    return path


class Guest:
    """A guest at an address; each request has a connection of its own, at any process."""

    def __init__(self, service: Service, address: str) -> None:
        self.service = service
        self._address = address

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        transport = httpx.HTTPTransport(local_address=self._address)
        with httpx.Client(base_url=self.service.address, transport=transport, timeout=60) as client:
            return client.request(method, path, **options)

    def ask(self, path: str, password: str, verb: str = "list", **body: Any) -> tuple[int, str, str | None]:
        answer = self.request("POST", f"/api/fs/{verb}", json={"path": path, "password": password} | body)
        envelope = answer.json()
        return envelope["code"], envelope["message"], answer.headers.get("retry-after")

    def propfind(self, path: str, password: str) -> tuple[int, str | None]:
        answer = self.request("PROPFIND", f"/dav{path}", auth=("guest", password), headers={"depth": "1"})
        return answer.status_code, answer.headers.get("retry-after")


def test_a8_wrong_folder_passwords_are_counted_and_lock_the_folder(guarded: Service, folder: str) -> None:
    guest, other = Guest(guarded, "127.0.0.2"), Guest(guarded, "127.0.0.3")
    assert [guest.ask(folder, f"wrong {number}") for number in range(MAX_FAILURES_PER_PAIR)] == [WRONG] * 5
    assert {guest.ask(folder, f"next {number}") for number in range(4)} == {LOCKED}
    assert {guest.ask(folder, RIGHT), guest.ask(f"{folder}/secret.txt", RIGHT, "get")} == {LOCKED}
    assert guest.ask(folder, "") == WRONG, "no password is no guess"
    assert other.ask(folder, RIGHT)[0] == 200, "another address is not locked"


def test_a8_right_password_ends_the_count(guarded: Service, folder: str) -> None:
    guest = Guest(guarded, "127.0.0.4")
    for _ in range(3):
        wrong = [guest.ask(folder, f"wrong {number}") for number in range(MAX_FAILURES_PER_PAIR - 1)]
        assert set(wrong) == {WRONG}
        assert guest.ask(folder, RIGHT)[0] == 200


def test_a8_same_wrong_password_counts_once(guarded: Service, folder: str) -> None:
    """A client that sends one password for all folders does not guess."""
    guest = Guest(guarded, "127.0.0.5")
    assert {guest.ask(folder, "that of another folder") for _ in range(12)} == {WRONG}
    assert guest.ask(folder, RIGHT)[0] == 200


def test_a8_guesses_by_webdav_count_too(guarded: Service, folder: str) -> None:
    guest = Guest(guarded, "127.0.0.6")
    answers = [guest.propfind(folder, f"wrong {number}") for number in range(MAX_FAILURES_PER_PAIR)]
    assert [status for status, _ in answers] == [answers[0][0]] * MAX_FAILURES_PER_PAIR
    assert answers[0][0] in (403, 404)
    assert guest.propfind(folder, RIGHT) == (429, str(LOCK_SECONDS))
    assert guest.ask(folder, RIGHT) == LOCKED


def test_a8_guesses_by_search_are_counted(guarded: Service, folder: str) -> None:
    """A search of the parent folder shows the files of folders whose password was sent."""
    guest = Guest(guarded, "127.0.0.7")

    def search(password: str) -> int:
        body = {"parent": "/", "keywords": "secret", "page": 1, "per_page": 10}
        return guest.ask("/", password, "search", **body)[0]

    codes = [search(f"wrong {number}") for number in range(MAX_FAILURES_PER_PAIR)]
    assert 429 not in codes
    assert (search("one more"), search(RIGHT)) == (429, 429)


def test_a8_guesses_at_the_same_time_are_bounded(guarded: Service, folder: str) -> None:
    async def storm() -> Counter[int]:
        transport = httpx.AsyncHTTPTransport(local_address="127.0.0.8")
        async with httpx.AsyncClient(base_url=guarded.address, transport=transport, timeout=60) as client:
            bodies = [{"path": folder, "password": f"guess {number}"} for number in range(60)]
            answers = await asyncio.gather(*(client.post("/api/fs/list", json=body) for body in bodies))
        return Counter(answer.json()["code"] for answer in answers)

    codes = asyncio.run(storm())
    assert codes[403] <= MAX_FAILURES_PER_PAIR
    assert codes[403] + codes[429] == 60


def test_a8_functions_in_the_cloud_share_the_count(records: None) -> None:
    """Two instances, which share the records alone."""
    for _ in range(MAX_FAILURES_PER_PAIR):
        with runtime.use(runtime.current().keep(Connections)):
            FOLDERS.check("folder", "192.0.2.1")
            FOLDERS.record_failure("folder", "192.0.2.1")

    with runtime.use(runtime.current().keep(Connections)), pytest.raises(TooMany) as refused:
        FOLDERS.check("folder", "192.0.2.1")
    assert refused.value.retry_after == LOCK_SECONDS
