"""Tasks over HTTP: uploads, copies and moves in the background, and what their owners may do with them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest

from tests.contract.api import accounts, fixtures
from tests.service import Client, Service

KINDS = ["upload", "copy", "move"]
DIALECTS = ["", "/openlist"]
CREATED = {"id", "name", "state", "status", "progress", "error"}
FIELDS = CREATED | {"creator", "creator_role", "start_time", "end_time", "total_bytes"}
NOT_FOUND = (404, "task not found")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
DONE_STATES = {2, 4, 7}
GETS = ["undone", "done"]
BY_TID = ["info", "cancel", "delete", "retry"]
BY_IDS = ["cancel_some", "delete_some", "retry_some"]
OF_ALL = ["clear_done", "clear_succeeded", "retry_failed"]


class TransferClient:
    """A user with every right, a folder on /files and another Local storage, all of this test's own."""

    def __init__(self, service: Service, admin: Client, client: Client, folder: str, root: Path, mount: str) -> None:
        self.service = service
        self.admin = admin
        self.client = client
        self.folder = folder
        self.disk = fixtures.disk(service, folder)
        self.root = root
        self.mount = mount

    def start(self, kind: str, name: str = "", content: bytes = b"content", client: Client | None = None) -> str:
        """A new task that carries one file to the other storage; its id."""
        name, client = name or uuid4().hex, client or self.client
        if kind == "upload":
            id: str = send(client, "put", f"{self.mount}/{name}", content, prefix="/openlist")["data"]["task"]["id"]
            return id
        (self.disk / name).write_bytes(content)
        return self.carry(kind, name, client=client)

    def carry(self, kind: str, name: str, client: Client | None = None, **more: bool) -> str:
        """A new task that copies or moves an entry of the folder to the other storage; its id."""
        body = {"src_dir": self.folder, "dst_dir": self.mount, "names": [name]} | more
        tasks = (client or self.client).ok(f"/openlist/api/fs/{kind}", **body)["tasks"]
        assert len(tasks) == 1
        return str(tasks[0]["id"])

    def info(self, kind: str, id: str) -> dict[str, Any]:
        row: dict[str, Any] = self.client.ok(f"/openlist/api/task/{kind}/info", params={"tid": id})
        return row

    def wait_for(self, kind: str, id: str) -> dict[str, Any]:
        """The task's record when it is done; 15 seconds at most."""
        end = time.monotonic() + 15
        while (row := self.info(kind, id))["state"] not in DONE_STATES or row["end_time"] is None:
            assert time.monotonic() < end, row
            time.sleep(0.01)
        while id not in list_ids(self.client, kind, "done"):
            assert time.monotonic() < end, row
        return row

    def list_staged(self) -> set[str]:
        folder = self.service.data / "staging"
        return {path.name for path in folder.iterdir()} if folder.exists() else set()

    def pause(self, kind: str) -> Any:
        """No task of the kind is begun for the time of the context."""
        return fixtures.settings(self.admin, **{f"{kind}_task_threads_num": "0"})


@pytest.fixture
def owner(service: Service, admin: Client, folder: str, tmp_path: Path) -> Iterator[TransferClient]:
    root = tmp_path / "other"
    root.mkdir()
    with fixtures.local(admin, root) as mount, fixtures.user(service, admin, fixtures.ALL_RIGHTS) as client:
        made = TransferClient(service, admin, client, folder, root, mount)
        yield made
        for kind in KINDS:
            for row in client.get(f"/openlist/api/task/{kind}/undone")["data"]:
                client.ok(f"/api/task/{kind}/cancel", params={"tid": row["id"]})
                made.wait_for(kind, row["id"])
            client.ok(f"/api/task/{kind}/clear_done")


def send(client: Client, route: str, path: str, content: bytes, prefix: str = "", **headers: str) -> dict[str, Any]:
    """Upload as a task by either route."""
    extra = {"file-path": quote(path), "as-task": "true"} | headers
    if route == "put":
        return client.envelope(client.http.put(f"{prefix}/api/fs/put", content=content, headers=extra))
    files = {"file": ("ignored", content)}
    return client.envelope(client.http.put(f"{prefix}/api/fs/form", files=files, headers=extra))


def post(client: Client, path: str, body: Any) -> dict[str, Any]:
    return client.envelope(client.http.post(path, json=body))


def list_ids(client: Client, kind: str, status_key: str) -> list[str]:
    return [row["id"] for row in client.get(f"/openlist/api/task/{kind}/{status_key}")["data"]]


def get_refusal(answer: dict[str, Any]) -> tuple[int, str]:
    assert answer["data"] is None, answer
    return answer["code"], answer["message"]


def test_a_task_is_shown_with_exactly_these_fields_in_both_dialects(owner: TransferClient) -> None:
    for kind in KINDS:
        id = owner.start(kind, f"{kind}.txt", b"x" * 1000)
        shown = owner.wait_for(kind, id)
        username = owner.client.get("/api/me")["data"]["username"]
        assert set(shown) == FIELDS
        name = {
            "upload": f"upload upload.txt to [{owner.mount}](/)",
            "copy": f"copy [/files]({owner.folder.removeprefix('/files')}/copy.txt) to [{owner.mount}](/)",
            "move": f"move [/files]({owner.folder.removeprefix('/files')}/move.txt) to [{owner.mount}](/)",
        }[kind]
        wanted = {"id": id, "name": name, "creator": username, "creator_role": 0, "state": 2, "error": ""}
        assert shown | wanted == shown
        assert re.fullmatch(r"[A-Za-z0-9_-]{21}", id)
        assert (shown["progress"], shown["total_bytes"], shown["status"]) == (100.0, 1000, "uploading")
        assert TIME.fullmatch(shown["start_time"])
        assert TIME.fullmatch(shown["end_time"])
        by_document = shown | {"state": "succeeded"}
        assert owner.client.ok(f"/api/task/{kind}/info", params={"tid": id}) == [by_document]
        assert owner.client.get(f"/api/task/{kind}/done")["data"] == [by_document]
        assert owner.client.get(f"/openlist/api/task/{kind}/done")["data"] == [shown]
        for prefix in DIALECTS:
            base = f"{prefix}/api/admin/task/{kind}"
            assert owner.admin.ok(f"{base}/info", params={"tid": id}) == shown
            assert shown in owner.admin.get(f"{base}/done")["data"]
            assert id not in [row["id"] for row in owner.admin.get(f"{base}/undone")["data"]]
        assert (owner.root / f"{kind}.txt").read_bytes() == b"x" * 1000
        assert (owner.disk / f"{kind}.txt").exists() == (kind == "copy")


@pytest.mark.parametrize("route", ["put", "form"])
@pytest.mark.parametrize("prefix", DIALECTS)
def test_an_upload_as_a_task_answers_the_task_at_once(owner: TransferClient, route: str, prefix: str) -> None:
    answer = send(owner.client, route, f"{owner.mount}/deep/er/f.bin", b"12345", prefix)
    task = answer["data"].pop("task")
    assert (answer["code"], answer["data"]) == (200, {})
    assert set(task) == (FIELDS if prefix else CREATED)
    assert (task["state"], task["status"], task["progress"], task["error"]) == (0, "uploading", 0, "")
    assert task["name"] == f"upload f.bin to [{owner.mount}](/deep/er)"
    if prefix:
        assert (task["total_bytes"], task["start_time"], task["end_time"]) == (5, None, None)
    assert owner.wait_for("upload", task["id"])["state"] == 2
    assert (owner.root / "deep/er/f.bin").read_bytes() == b"12345"
    assert task["id"] not in owner.list_staged()


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_copies_and_moves_answer_in_both_dialects(owner: TransferClient, verb: str) -> None:
    for name in "abc":
        (owner.disk / name).write_text(name)
    body = {"src_dir": owner.folder, "dst_dir": owner.mount}
    assert owner.client.ok(f"/api/fs/{verb}", **body, names=["a"]) is None
    data = owner.client.ok(f"/openlist/api/fs/{verb}", **body, names=["b", "c"])
    assert data["message"] == f"Successfully created 2 {verb} task(s)"
    for task in data["tasks"]:
        assert set(task) == FIELDS
        assert (task["state"], task["status"], task["progress"], task["total_bytes"]) == (0, "", 0, 0)
        assert (task["start_time"], task["end_time"], task["error"]) == (None, None, "")
    for id in [*list_ids(owner.client, verb, "undone"), *list_ids(owner.client, verb, "done")]:
        assert owner.wait_for(verb, id)["state"] == 2
    assert {path.name: path.read_text() for path in owner.root.iterdir()} == {name: name for name in "abc"}
    assert sorted(path.name for path in owner.disk.iterdir()) == (["a", "b", "c"] if verb == "copy" else [])
    (owner.disk / "d").write_text("d")
    owner.client.ok("/api/fs/mkdir", path=f"{owner.folder}/in")
    done = owner.client.ok(f"/openlist/api/fs/{verb}", src_dir=owner.folder, dst_dir=f"{owner.folder}/in", names=["d"])
    assert done == {"message": f"{verb.capitalize()} operations completed immediately"}


def test_a_folder_is_one_task_that_keeps_its_empty_folders(owner: TransferClient) -> None:
    for name in ("tree/a/one", "tree/two"):
        (owner.disk / name).parent.mkdir(parents=True, exist_ok=True)
        (owner.disk / name).write_text(name)
    (owner.disk / "tree/empty/deep").mkdir(parents=True)
    row = owner.wait_for("copy", owner.carry("copy", "tree"))
    assert (row["state"], row["total_bytes"], row["error"]) == (2, len("tree/a/one") + len("tree/two"), "")
    assert (
        list_shape(owner.root / "tree")
        == list_shape(owner.disk / "tree")
        == ["a", "a/one", "empty", "empty/deep", "two"]
    )
    before = owner.list_staged()
    row = owner.wait_for("move", owner.carry("move", "tree", overwrite=True))
    assert row["state"] == 2, row
    assert not (owner.disk / "tree").exists()
    assert list_shape(owner.root / "tree") == ["a", "a/one", "empty", "empty/deep", "two"]
    assert owner.list_staged() <= before


def list_shape(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_cancelled_task_ends_cancelled_and_does_its_work_when_it_is_retried(owner: TransferClient, kind: str) -> None:
    base = f"/openlist/api/task/{kind}"
    with owner.pause(kind):
        id = owner.start(kind, "f")
        assert list_ids(owner.client, kind, "undone") == [id]
        assert owner.info(kind, id)["state"] == 0
        assert owner.client.post(f"{base}/cancel", params={"tid": id}) == {
            "code": 200,
            "message": "success",
            "data": None,
        }
        assert owner.info(kind, id)["state"] in (3, 4)
        row = owner.wait_for(kind, id)
    assert (row["state"], row["error"]) == (4, "context canceled")
    assert list(owner.root.iterdir()) == []
    assert owner.client.ok(f"{base}/cancel", params={"tid": id}) is None
    assert owner.info(kind, id) == row
    owner.client.ok(f"{base}/retry", params={"tid": id})
    row = owner.wait_for(kind, id)
    assert (row["state"], row["error"], row["progress"]) == (2, "", 100.0)
    assert (owner.root / "f").read_bytes() == b"content"


def test_the_some_operations_name_only_those_that_failed(owner: TransferClient) -> None:
    base = "/api/task/copy"
    with owner.pause("copy"):
        first, second = owner.start("copy"), owner.start("copy")
        assert post(owner.client, f"{base}/cancel_some", [first, "nope", "", "x" * 5000, first])["data"] == {
            id: "task not found" for id in ("nope", "", "x" * 5000)
        }
        assert owner.wait_for("copy", first)["state"] == 4
        assert owner.info("copy", second)["state"] == 0
        assert post(owner.client, f"{base}/retry_some", [second])["data"] == {}
        assert post(owner.client, f"{base}/cancel_some", [])["data"] == {}
    assert [owner.wait_for("copy", id)["state"] for id in (first, second)] == [4, 2]
    assert post(owner.client, f"{base}/retry_some", [first, "x"])["data"] == {"x": "task not found"}
    assert owner.wait_for("copy", first)["state"] == 2
    assert post(owner.client, f"{base}/delete_some", [first, second, "y"])["data"] == {"y": "task not found"}
    assert post(owner.client, f"{base}/delete_some", [first])["data"] == {first: "task not found"}
    assert list_ids(owner.client, "copy", "done") == []
    for bad in ({"ids": [first]}, "text", [1], [None], [[first]]):
        assert post(owner.client, f"{base}/delete_some", bad)["code"] == 400


@pytest.mark.parametrize("area", ["task", "admin/task"])
@pytest.mark.parametrize("op", BY_IDS)
def test_the_some_operations_take_no_body_for_none_and_refuse_what_is_no_list(
    admin: Client, area: str, op: str
) -> None:
    for path in (f"{prefix}/api/{area}/copy/{op}" for prefix in DIALECTS):
        assert admin.envelope(admin.http.post(path)) == {"code": 200, "message": "success", "data": {}}
        assert post(admin, path, ["x" * (9 << 20)])["code"] == 413
        assert "invalid JSON" in admin.envelope(admin.http.post(path, content=b"["))["message"]
        assert get_refusal(post(admin, path, {})) == (400, "invalid request format")
        assert get_refusal(post(admin, path, "id")) == (400, "invalid request format")
        assert get_refusal(post(admin, path, [1]))[0] == 400


def test_clearing_and_retrying_act_on_the_states_they_name(owner: TransferClient) -> None:
    (owner.root / "taken").mkdir()
    base = "/api/task/copy"
    (owner.disk / "taken").write_text("x")
    failed = owner.carry("copy", "taken", overwrite=True)
    assert owner.wait_for("copy", failed)["state"] == 7
    good = owner.start("copy")
    assert owner.wait_for("copy", good)["state"] == 2
    with owner.pause("copy"):
        cancelled = owner.start("copy")
        owner.client.ok(f"{base}/cancel", params={"tid": cancelled})
    assert owner.wait_for("copy", cancelled)["state"] == 4
    assert owner.client.ok(f"{base}/clear_succeeded") is None
    assert sorted(list_ids(owner.client, "copy", "done")) == sorted([failed, cancelled])
    (owner.root / "taken").rmdir()
    assert owner.client.ok(f"{base}/retry_failed") is None
    row = owner.wait_for("copy", failed)
    assert (row["state"], row["error"]) == (2, "")
    assert (owner.root / "taken").read_text() == "x"
    assert owner.info("copy", cancelled)["state"] == 4
    assert owner.client.ok(f"{base}/clear_done") is None
    assert list_ids(owner.client, "copy", "done") == []


def test_a_deleted_task_is_not_done(owner: TransferClient) -> None:
    with owner.pause("copy"):
        id = owner.start("copy", "f")
        after = owner.start("copy", "g")
        assert owner.client.ok("/api/task/copy/delete", params={"tid": id}) is None
        assert get_refusal(owner.client.post("/api/task/copy/info", params={"tid": id})) == NOT_FOUND
    assert owner.wait_for("copy", after)["state"] == 2
    assert [path.name for path in owner.root.iterdir()] == ["g"]
    assert owner.client.ok("/api/task/copy/delete", params={"tid": after}) is None
    assert list_ids(owner.client, "copy", "done") == []


@pytest.mark.parametrize("area", ["/api/task", "/api/admin/task"])
@pytest.mark.parametrize("prefix", DIALECTS)
def test_an_unknown_task_or_kind_is_not_found(owner: TransferClient, prefix: str, area: str) -> None:
    base, client = f"{prefix}{area}", owner.admin
    for verb in BY_TID:
        for query in ({"tid": "nope"}, {"tid": ""}, {}, {"tid": "x" * 21}, {"tid": "ä" * 21}, {"tid": "x" * 5000}):
            assert get_refusal(client.post(f"{base}/copy/{verb}", params=query)) == NOT_FOUND
    for verb in GETS:
        assert get_refusal(client.get(f"{base}/nonsense/{verb}"))[0] == 404
    for verb in BY_TID + OF_ALL:
        assert get_refusal(client.post(f"{base}/nonsense/{verb}", params={"tid": "x"}))[0] == 404
    for verb in BY_IDS:
        assert get_refusal(post(client, f"{base}/nonsense/{verb}", ["x"]))[0] == 404
    assert get_refusal(client.get(f"{base}/copy/nonsense"))[0] == 404


def test_a_task_is_found_under_its_own_kind_only(owner: TransferClient) -> None:
    id = owner.start("copy")
    owner.wait_for("copy", id)
    for verb in BY_TID:
        assert get_refusal(owner.client.post(f"/api/task/move/{verb}", params={"tid": id})) == NOT_FOUND
    assert list_ids(owner.client, "copy", "done") == [id]


def test_other_users_neither_see_nor_touch_a_task_and_administrators_do(owner: TransferClient) -> None:
    id = owner.start("copy")
    shown = owner.wait_for("copy", id)
    with fixtures.user(owner.service, owner.admin, fixtures.ALL_RIGHTS) as other:
        for verb in BY_TID:
            assert get_refusal(other.post(f"/api/task/copy/{verb}", params={"tid": id})) == NOT_FOUND
        for verb in BY_IDS:
            assert post(other, f"/api/task/copy/{verb}", [id])["data"] == {id: "task not found"}
        for verb in OF_ALL:
            assert other.ok(f"/api/task/copy/{verb}") is None
        assert [list_ids(other, "copy", status_key) for status_key in GETS] == [[], []]
        for verb in BY_TID + OF_ALL:
            answer = other.post(f"/api/admin/task/copy/{verb}", params={"tid": id})
            assert get_refusal(answer) == accounts.NOT_ADMIN
        for verb in BY_IDS:
            assert get_refusal(post(other, f"/api/admin/task/copy/{verb}", [id])) == accounts.NOT_ADMIN
        for verb in GETS:
            assert get_refusal(other.get(f"/api/admin/task/copy/{verb}")) == accounts.NOT_ADMIN
    assert owner.info("copy", id) == shown
    assert shown in owner.admin.get("/openlist/api/task/copy/done")["data"]
    assert owner.admin.ok("/api/admin/task/copy/retry", params={"tid": id}) is None
    assert owner.wait_for("copy", id)["state"] == 2
    assert post(owner.admin, "/api/admin/task/copy/cancel_some", [id, "q"])["data"] == {"q": "task not found"}
    assert post(owner.admin, "/api/admin/task/copy/retry_some", ["q"])["data"] == {"q": "task not found"}
    assert post(owner.admin, "/api/admin/task/copy/delete_some", [id])["data"] == {}
    assert list_ids(owner.client, "copy", "done") == []


def test_administrators_cancel_clear_and_retry_the_tasks_of_all(owner: TransferClient) -> None:
    base = "/api/admin/task/move"
    with owner.pause("move"):
        first, second = owner.start("move"), owner.start("move")
        assert {first, second} <= {row["id"] for row in owner.admin.get(f"{base}/undone")["data"]}
        assert owner.admin.ok(f"{base}/cancel", params={"tid": first}) is None
    assert [owner.wait_for("move", id)["state"] for id in (first, second)] == [4, 2]
    assert owner.admin.ok(f"{base}/retry_failed") is None
    assert owner.admin.ok(f"{base}/clear_succeeded") is None
    assert list_ids(owner.client, "move", "done") == [first]
    assert owner.admin.ok(f"{base}/clear_done") is None
    assert list_ids(owner.client, "move", "done") == []
    third = owner.start("move")
    owner.wait_for("move", third)
    assert owner.admin.ok(f"{base}/delete", params={"tid": third}) is None
    assert list_ids(owner.client, "move", "done") == []


def test_the_guest_and_strangers_have_no_tasks(owner: TransferClient) -> None:
    nobody = owner.service.nobody()
    answers = [nobody.get(f"/api/task/copy/{verb}") for verb in GETS]
    answers += [nobody.post(f"/api/task/copy/{verb}", params={"tid": "x"}) for verb in BY_TID + OF_ALL]
    answers += [post(nobody, f"/api/task/copy/{verb}", ["x"]) for verb in BY_IDS]
    assert {get_refusal(answer) for answer in answers} == {accounts.GUEST_DISABLED}
    with accounts.guest(owner.admin) as guest:
        answers = [guest.get(f"/api/task/copy/{verb}") for verb in GETS]
        answers += [guest.post(f"/api/task/copy/{verb}", params={"tid": "x"}) for verb in BY_TID + OF_ALL]
        answers += [post(guest, f"/api/task/copy/{verb}", ["x"]) for verb in BY_IDS]
        assert {get_refusal(answer)[0] for answer in answers} <= {401, 403}


def test_lists_come_in_pages_where_they_are_asked_for(owner: TransferClient) -> None:
    with owner.pause("copy"):
        made = [owner.start("copy") for _ in range(5)]
        base = "/api/task/copy/undone"

        def list_page(**query: Any) -> list[str]:
            return [row["id"] for row in owner.client.get(base, **query)["data"]]

        assert list_page() == list_page(page=1) == list_page(per_page=0) == made
        assert list_page(page=1, per_page=2) == made[:2]
        assert list_page(page=3, per_page=2) == made[4:]
        assert list_page(page=4, per_page=2) == []
        assert list_page(per_page=3) == made[:3]
        assert list_page(page=-1, per_page=2) == made[:2]
        for bad in ("x", "1.5", "1e3"):
            assert owner.client.get(base, page=bad)["code"] == 400
    for id in made:
        owner.wait_for("copy", id)
    assert [row["id"] for row in owner.client.get("/api/task/copy/done", page=2, per_page=4)["data"]] == made[4:]


@pytest.mark.parametrize("route", ["put", "form"])
def test_what_an_upload_may_not_do_is_refused_before_anything_is_staged(owner: TransferClient, route: str) -> None:
    (owner.root / "there").write_text("old")
    (owner.root / "folder").mkdir()
    before = owner.list_staged()
    path = f"{owner.mount}/there"
    assert get_refusal(send(owner.client, route, path, b"new", overwrite="false")) == (403, "file exists")
    assert send(owner.client, route, f"{owner.mount}/folder", b"new")["code"] == 500
    assert send(owner.client, route, f"{owner.mount}/../up/there", b"new")["code"] == 403
    assert send(owner.client, route, "/no/such/storage", b"new")["code"] != 200
    digest = {"x-file-md5": "0" * 32}
    assert get_refusal(send(owner.client, route, f"{owner.mount}/wrong", b"new", **digest))[0] == 400
    rights = fixtures.ALL_RIGHTS & ~fixtures.WRITE
    with fixtures.user(owner.service, owner.admin, rights) as reader:
        assert get_refusal(send(reader, route, f"{owner.mount}/n", b"new"))[0] == 403
        assert list_ids(reader, "upload", "undone") + list_ids(reader, "upload", "done") == []
    assert get_refusal(send(owner.service.nobody(), route, path, b"new")) == accounts.GUEST_DISABLED
    assert owner.list_staged() == before
    assert list_ids(owner.client, "upload", "undone") + list_ids(owner.client, "upload", "done") == []
    assert {path.name for path in owner.root.iterdir()} == {"there", "folder"}
    assert (owner.root / "there").read_text() == "old"


def test_an_upload_that_does_not_overwrite_spares_a_file_that_came_meanwhile(owner: TransferClient) -> None:
    with owner.pause("upload"):
        answer = send(owner.client, "put", f"{owner.mount}/f", b"uploaded", overwrite="false")
        (owner.root / "f").write_text("somebody else's")
    row = owner.wait_for("upload", answer["data"]["task"]["id"])
    assert (row["state"], (owner.root / "f").read_text()) == (7, "somebody else's")
    assert "file exists" in row["error"]
    assert row["id"] in owner.list_staged()
    (owner.root / "f").unlink()
    owner.client.ok("/api/task/upload/retry", params={"tid": row["id"]})
    assert owner.wait_for("upload", row["id"])["state"] == 2
    assert (owner.root / "f").read_text() == "uploaded"
    assert row["id"] not in owner.list_staged()


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_carrying_is_refused_at_once_without_the_right(owner: TransferClient, verb: str) -> None:
    (owner.disk / "f").write_text("x")
    right = {"copy": fixtures.COPY, "move": fixtures.MOVE}[verb]
    with fixtures.user(owner.service, owner.admin, fixtures.ALL_RIGHTS & ~right) as client:
        body = {"src_dir": owner.folder, "dst_dir": owner.mount, "names": ["f"]}
        assert get_refusal(client.post(f"/api/fs/{verb}", **body)) == (403, "permission denied")
        assert list_ids(client, verb, "undone") + list_ids(client, verb, "done") == []
    assert list(owner.root.iterdir()) == []


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_a_taken_name_is_refused_or_skipped_or_overwritten_as_asked(owner: TransferClient, verb: str) -> None:
    (owner.disk / "f").write_text("new")
    (owner.root / "f").write_text("old")
    body = {"src_dir": owner.folder, "dst_dir": owner.mount, "names": ["f"]}
    assert get_refusal(owner.client.post(f"/api/fs/{verb}", **body)) == (403, "file [f] exists")
    done = {"message": f"{verb.capitalize()} operations completed immediately"}
    assert owner.client.ok(f"/openlist/api/fs/{verb}", **body, skip_existing=True) == done
    assert (owner.root / "f").read_text() == "old"
    assert owner.wait_for(verb, owner.carry(verb, "f", overwrite=True))["state"] == 2
    assert (owner.root / "f").read_text() == "new"
    assert (owner.disk / "f").exists() == (verb == "copy")


def start_broken_tree(owner: TransferClient, verb: str) -> tuple[str, dict[str, Any]]:
    """A tree of which one file could not be carried; the task and its record."""
    for name in ("a.txt", "sub/b.txt", "sub/c.txt"):
        (owner.disk / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (owner.disk / "tree" / name).write_text(name)
    (owner.root / "tree/sub/b.txt/in the way").mkdir(parents=True)
    id = owner.carry(verb, "tree", overwrite=True)
    return id, owner.wait_for(verb, id)


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_an_item_that_fails_is_named_and_a_retry_does_only_what_is_missing(owner: TransferClient, verb: str) -> None:
    id, row = start_broken_tree(owner, verb)
    assert row["state"] == 7
    assert "sub/b.txt" in row["error"]
    assert row["error"].startswith("1 of ")
    assert "a.txt" not in row["error"]
    assert (owner.root / "tree/a.txt").read_text() == "a.txt"
    assert (owner.root / "tree/sub/c.txt").read_text() == "sub/c.txt"
    assert (owner.disk / "tree/sub/b.txt").read_text() == "sub/b.txt"
    owner.client.ok(f"/api/task/{verb}/retry", params={"tid": id})
    again = owner.wait_for(verb, id)
    assert (again["state"], again["error"]) == (7, "1 of 1 items failed: sub/b.txt: file exists")
    (owner.root / "tree/sub/b.txt/in the way").rmdir()
    (owner.root / "tree/sub/b.txt").rmdir()
    (owner.root / "tree/a.txt").write_text("touched since")
    owner.client.ok(f"/api/task/{verb}/retry", params={"tid": id})
    row = owner.wait_for(verb, id)
    assert (row["state"], row["error"]) == (2, "")
    assert (owner.root / "tree/sub/b.txt").read_text() == "sub/b.txt"
    assert (owner.root / "tree/a.txt").read_text() == "touched since"
    assert (owner.disk / "tree").exists() == (verb == "copy")


@pytest.mark.parametrize("kind", ["copy", "move"])
def test_a_source_that_is_gone_fails_the_task_and_a_retry_finds_it_again(owner: TransferClient, kind: str) -> None:
    with owner.pause(kind):
        id = owner.start(kind, "f")
        (owner.disk / "f").unlink()
    row = owner.wait_for(kind, id)
    assert (row["state"], "object not found" in row["error"]) == (7, True)
    assert list(owner.root.iterdir()) == []
    (owner.disk / "f").write_text("back")
    owner.client.ok(f"/api/task/{kind}/retry", params={"tid": id})
    assert owner.wait_for(kind, id)["state"] == 2
    assert (owner.root / "f").read_text() == "back"


def run_while_waiting(owner: TransferClient, verb: str, happens: Callable[[], object], **more: bool) -> dict[str, Any]:
    """The record of a task before whose first slice something happened."""
    (owner.disk / "f").write_text("source")
    with owner.pause(verb):
        id = owner.carry(verb, "f", **more)
        happens()
    return owner.wait_for(verb, id)


def test_a_move_keeps_what_it_was_to_skip(owner: TransferClient) -> None:
    row = run_while_waiting(owner, "move", lambda: (owner.root / "f").write_text("others"), skip_existing=True)
    assert (owner.disk / "f").read_text() == "source"
    assert (owner.root / "f").read_text() == "others"
    assert row["state"] in (2, 7)


@pytest.mark.parametrize("more", [{}, {"skip_existing": True}])
def test_a_move_keeps_its_source_when_the_target_only_looks_the_same(
    owner: TransferClient, more: dict[str, bool]
) -> None:
    row = run_while_waiting(owner, "move", lambda: (owner.root / "f").write_text("ecruos"), **more)
    assert (owner.disk / "f").read_text() == "source"
    assert (owner.root / "f").read_text() == "ecruos"
    if not more:
        assert (row["state"], "file exists" in row["error"]) == (7, True)


def test_a_move_finishes_what_a_worker_that_died_has_stored(owner: TransferClient) -> None:
    row = run_while_waiting(owner, "move", lambda: (owner.root / "f").write_text("source"))
    assert row["state"] == 2
    assert not (owner.disk / "f").exists()
    assert (owner.root / "f").read_text() == "source"


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_a_task_has_the_rights_that_its_owner_has_now(owner: TransferClient, verb: str) -> None:
    users = owner.admin.get("/api/admin/user/list")["data"]["content"]
    name = owner.client.get("/api/me")["data"]["username"]
    row = next(one for one in users if one["username"] == name)
    ended = run_while_waiting(
        owner, verb, lambda: owner.admin.ok("/api/admin/user/update", **(row | {"permission": fixtures.WRITE}))
    )
    assert (ended["state"], ended["error"]) == (7, "permission denied")
    assert list(owner.root.iterdir()) == []
    assert (owner.disk / "f").exists()
    owner.admin.ok("/api/admin/user/update", **row)
    owner.client.ok(f"/api/task/{verb}/retry", params={"tid": ended["id"]})
    assert owner.wait_for(verb, ended["id"])["state"] == 2
