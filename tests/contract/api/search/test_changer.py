"""The user who changed a file last, over HTTP, whatever request changed it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.contract.api import fixtures
from tests.contract.api.search_client import build_index
from tests.contract.api.upload_client import send_batch
from tests.support.service import ADMIN_PASSWORD, Client, Service
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("search")  # one service


@pytest.fixture
def user(service: Service, admin: Client) -> Iterator[Client]:
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS) as client:
        yield client


def find(client: Client, path: str) -> str:
    return str(client.ok("/api/fs/changer", path=path)["username"])


def read_name(client: Client) -> str:
    return str(client.get("/api/me")["data"]["username"])


def test_changer_of_a_file_is_the_user_of_the_last_request(admin: Client, user: Client, folder: str) -> None:
    username = read_name(user)
    admin.put(f"{folder}/a.txt", b"one")
    assert find(user, f"{folder}/a.txt") == "admin"
    user.put(f"{folder}/a.txt", b"two")
    assert find(admin, f"{folder}/a.txt") == username
    answer = httpx.put(
        f"{user.address}/dav{folder}/a.txt", content=b"three", auth=("admin", ADMIN_PASSWORD), timeout=60
    )
    assert answer.is_success and find(user, f"{folder}/a.txt") == "admin"
    assert send_batch(user, {f"{folder}/b.txt": b"b", f"{folder}/c.txt": b"c"})["code"] == 200
    assert find(admin, f"{folder}/b.txt") == find(admin, f"{folder}/c.txt") == username
    build_index(admin)
    assert (find(user, f"{folder}/a.txt"), find(user, f"{folder}/b.txt")) == ("admin", username)


def test_changer_of_a_file_that_a_task_stored_is_the_owner_of_the_task(
    admin: Client, user: Client, folder: str
) -> None:
    admin.put(f"{folder}/a.txt", b"content")
    admin.ok("/api/fs/mkdir", path=f"{folder}/in")
    user.ok("/api/fs/copy", src_dir=folder, dst_dir=f"{folder}/in", names=["a.txt"])
    user.put(f"{folder}/task.txt", b"later", **{"as-task": "true"})
    for name in ("in/a.txt", "task.txt"):
        wait_until(lambda name=name: user.post("/api/fs/changer", path=f"{folder}/{name}")["code"] == 200)
        wait_until(lambda name=name: find(admin, f"{folder}/{name}") == read_name(user))
    assert find(admin, f"{folder}/a.txt") == "admin"


def test_changer_of_a_file_of_a_visitor_is_unknown(service: Service, admin: Client, user: Client, folder: str) -> None:
    id = user.ok("/api/share/create", files=[folder], mode="drop")["id"]
    answer = service.anonymous().http.put(f"/sd/{id}/sent.txt", content=b"sent")
    assert answer.status_code == 201
    assert find(admin, f"{folder}/sent.txt") == find(user, f"{folder}/sent.txt") == ""


def test_changer_is_told_to_members_who_may_read_the_file(service: Service, admin: Client, folder: str) -> None:
    admin.put(f"{folder}/a.txt", b"one")
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS, base_path=f"{folder}/elsewhere") as other:
        assert other.post("/api/fs/changer", path="/a.txt")["message"] == fixtures.NOTHING_THERE
        assert other.post("/api/fs/changer", path="/../a.txt")["code"] != 200
    with fixtures.meta(admin, folder, password="secret", p_sub=True), fixtures.user(service, admin, 0) as other:
        assert other.post("/api/fs/changer", path=f"{folder}/a.txt")["code"] == 403
        answer = other.ok("/api/fs/changer", path=f"{folder}/a.txt", password="secret")
        assert answer == {"username": "admin"}
    assert service.anonymous().post("/api/fs/changer", path=f"{folder}/a.txt")["code"] == 401
