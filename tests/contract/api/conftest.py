"""Fixtures that several modules here use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.api import fixtures
from tests.contract.api.accounts import (
    People,
    Person,
    get_data,
    guest,
)
from tests.contract.api.download_client import LETTERS, make_url
from tests.contract.api.meta_client import (
    NO_PRIVILEGE,
    Callers,
)
from tests.contract.api.task_client import (
    TaskClient,
    task_client,
)
from tests.contract.api.transfer_client import KINDS, TransferClient
from tests.support import origin
from tests.support.origin import Origin
from tests.support.service import Client, Service


@pytest.fixture
def accounts(service: Service, admin: Client) -> Iterator[People]:
    """Makes users; the remaining ones are removed at the end."""
    accounts = People(service, admin)
    yield accounts
    accounts.close()


@pytest.fixture(scope="module")
def someone(service: Service, admin: Client) -> Iterator[Person]:
    """One user for all tests here that leave the account as it is."""
    accounts = People(service, admin)
    yield accounts.new()
    accounts.close()


@pytest.fixture(scope="module")
def normal(service: Service, admin: Client) -> Iterator[Person]:
    """One normal user for all tests here that need no rights of their own."""
    accounts = People(service, admin)
    yield accounts.new(permission=NO_PRIVILEGE)
    accounts.close()


@pytest.fixture
def two(admin: Client, normal: Person) -> Iterator[Callers]:
    """A normal user and the guest with every right but to see hidden names and to skip passwords."""
    with guest(admin, permission=NO_PRIVILEGE) as visitor:
        yield Callers(normal.client, visitor, normal.id, get_data(visitor.get("/api/me"))["id"])


@pytest.fixture
def letters(admin: Client, folder: str) -> str:
    """The signed address of a file with the alphabet in it, last changed in 2020."""
    assert admin.put(f"{folder}/letters.txt", LETTERS, last_modified="1577934245000")["code"] == 200
    return make_url("p", f"{folder}/letters.txt", admin.ok("/api/fs/get", path=f"{folder}/letters.txt")["sign"])


@pytest.fixture(scope="module")
def visitor(service: Service) -> Client:
    """A client without a token."""
    return service.anonymous()


@pytest.fixture(scope="module")
def web() -> Iterator[Origin]:
    """The web server that downloads come from."""
    with origin.origin() as server:
        yield server


@pytest.fixture
def transfers(service: Service, admin: Client, folder: str, tmp_path: Path) -> Iterator[TransferClient]:
    """A user whose transfers are tasks; unfinished ones are cancelled at the end."""
    root = tmp_path / "other"
    root.mkdir()
    with fixtures.local(admin, root) as mount, fixtures.user(service, admin, fixtures.ALL_RIGHTS) as client:
        transfers = TransferClient(service, admin, client, folder, root, mount)
        yield transfers
        for kind in KINDS:
            for row in client.get(f"/openlist/api/task/{kind}/undone")["data"]:
                client.ok(f"/api/task/{kind}/cancel", params={"tid": row["id"]})
                transfers.wait_for(kind, row["id"])
            client.ok(f"/api/task/{kind}/clear_done")


@pytest.fixture
def owner(service: Service, admin: Client, tmp_path: Path) -> Iterator[TaskClient]:
    """A user with long work, and storages of their own."""
    with task_client(service, admin, tmp_path / "other") as client:
        yield client


@pytest.fixture(scope="module")
def allow_loopback(admin: Client) -> Iterator[None]:
    """Downloads may reach this machine."""
    with fixtures.settings(admin, offline_download_allowed_hosts="127.0.0.1", offline_download_task_threads_num="20"):
        yield
