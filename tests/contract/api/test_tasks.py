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


class Place:
    """A user with every right, a folder on /files and another Local storage, all of this test's own."""

    def __init__(self, service: Service, admin: Client, client: Client, folder: str, root: Path, mount: str) -> None:
        self.service = service
        self.admin = admin
        self.client = client
        self.folder = folder
        self.disk = fixtures.disk(service, folder)
        self.root = root
        self.mount = mount

    def open(self, kind: str, name: str = "", content: bytes = b"content", client: Client | None = None) -> str:
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

    def ended(self, kind: str, id: str) -> dict[str, Any]:
        """The task's record when it is done; 15 seconds at most."""
        end = time.monotonic() + 15
        while (row := self.info(kind, id))["state"] not in DONE_STATES or row["end_time"] is None:
            assert time.monotonic() < end, row
            time.sleep(0.01)
        while id not in ids(self.client, kind, "done"):
            assert time.monotonic() < end, row
        return row

    def staged(self) -> set[str]:
        folder = self.service.data / "staging"
        return {path.name for path in folder.iterdir()} if folder.exists() else set()

    def paused(self, kind: str) -> Any:
        """No task of the kind is begun for the time of the context."""
        return fixtures.settings(self.admin, **{f"{kind}_task_threads_num": "0"})


@pytest.fixture
def place(service: Service, admin: Client, folder: str, tmp_path: Path) -> Iterator[Place]:
    root = tmp_path / "other"
    root.mkdir()
    with fixtures.local(admin, root) as mount, fixtures.user(service, admin, fixtures.ALL_RIGHTS) as client:
        made = Place(service, admin, client, folder, root, mount)
        yield made
        for kind in KINDS:
            for row in client.get(f"/openlist/api/task/{kind}/undone")["data"]:
                client.ok(f"/api/task/{kind}/cancel", params={"tid": row["id"]})
                made.ended(kind, row["id"])
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


def ids(client: Client, kind: str, shelf: str) -> list[str]:
    return [row["id"] for row in client.get(f"/openlist/api/task/{kind}/{shelf}")["data"]]


def refusal(answer: dict[str, Any]) -> tuple[int, str]:
    assert answer["data"] is None, answer
    return answer["code"], answer["message"]


def test_a_task_is_shown_with_exactly_these_fields_in_both_dialects(place: Place) -> None:
    for kind in KINDS:
        id = place.open(kind, f"{kind}.txt", b"x" * 1000)
        shown = place.ended(kind, id)
        username = place.client.get("/api/me")["data"]["username"]
        assert set(shown) == FIELDS
        name = {
            "upload": f"upload upload.txt to [{place.mount}](/)",
            "copy": f"copy [/files]({place.folder.removeprefix('/files')}/copy.txt) to [{place.mount}](/)",
            "move": f"move [/files]({place.folder.removeprefix('/files')}/move.txt) to [{place.mount}](/)",
        }[kind]
        wanted = {"id": id, "name": name, "creator": username, "creator_role": 0, "state": 2, "error": ""}
        assert shown | wanted == shown
        assert re.fullmatch(r"[A-Za-z0-9_-]{21}", id)
        assert (shown["progress"], shown["total_bytes"], shown["status"]) == (100.0, 1000, "uploading")
        assert TIME.fullmatch(shown["start_time"])
        assert TIME.fullmatch(shown["end_time"])
        by_document = shown | {"state": "succeeded"}
        assert place.client.ok(f"/api/task/{kind}/info", params={"tid": id}) == [by_document]
        assert place.client.get(f"/api/task/{kind}/done")["data"] == [by_document]
        assert place.client.get(f"/openlist/api/task/{kind}/done")["data"] == [shown]
        for prefix in DIALECTS:
            base = f"{prefix}/api/admin/task/{kind}"
            assert place.admin.ok(f"{base}/info", params={"tid": id}) == shown
            assert shown in place.admin.get(f"{base}/done")["data"]
            assert id not in [row["id"] for row in place.admin.get(f"{base}/undone")["data"]]
        assert (place.root / f"{kind}.txt").read_bytes() == b"x" * 1000
        assert (place.disk / f"{kind}.txt").exists() == (kind == "copy")


@pytest.mark.parametrize("route", ["put", "form"])
@pytest.mark.parametrize("prefix", DIALECTS)
def test_an_upload_as_a_task_answers_the_task_at_once(place: Place, route: str, prefix: str) -> None:
    answer = send(place.client, route, f"{place.mount}/deep/er/f.bin", b"12345", prefix)
    task = answer["data"].pop("task")
    assert (answer["code"], answer["data"]) == (200, {})
    assert set(task) == (FIELDS if prefix else CREATED)
    assert (task["state"], task["status"], task["progress"], task["error"]) == (0, "uploading", 0, "")
    assert task["name"] == f"upload f.bin to [{place.mount}](/deep/er)"
    if prefix:
        assert (task["total_bytes"], task["start_time"], task["end_time"]) == (5, None, None)
    assert place.ended("upload", task["id"])["state"] == 2
    assert (place.root / "deep/er/f.bin").read_bytes() == b"12345"
    assert task["id"] not in place.staged()


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_copies_and_moves_answer_in_both_dialects(place: Place, verb: str) -> None:
    for name in "abc":
        (place.disk / name).write_text(name)
    body = {"src_dir": place.folder, "dst_dir": place.mount}
    assert place.client.ok(f"/api/fs/{verb}", **body, names=["a"]) is None
    data = place.client.ok(f"/openlist/api/fs/{verb}", **body, names=["b", "c"])
    assert data["message"] == f"Successfully created 2 {verb} task(s)"
    for task in data["tasks"]:
        assert set(task) == FIELDS
        assert (task["state"], task["status"], task["progress"], task["total_bytes"]) == (0, "", 0, 0)
        assert (task["start_time"], task["end_time"], task["error"]) == (None, None, "")
    for id in [*ids(place.client, verb, "undone"), *ids(place.client, verb, "done")]:
        assert place.ended(verb, id)["state"] == 2
    assert {path.name: path.read_text() for path in place.root.iterdir()} == {name: name for name in "abc"}
    assert sorted(path.name for path in place.disk.iterdir()) == (["a", "b", "c"] if verb == "copy" else [])
    (place.disk / "d").write_text("d")
    place.client.ok("/api/fs/mkdir", path=f"{place.folder}/in")
    done = place.client.ok(f"/openlist/api/fs/{verb}", src_dir=place.folder, dst_dir=f"{place.folder}/in", names=["d"])
    assert done == {"message": f"{verb.capitalize()} operations completed immediately"}


def test_a_folder_is_one_task_that_keeps_its_empty_folders(place: Place) -> None:
    for name in ("tree/a/one", "tree/two"):
        (place.disk / name).parent.mkdir(parents=True, exist_ok=True)
        (place.disk / name).write_text(name)
    (place.disk / "tree/empty/deep").mkdir(parents=True)
    row = place.ended("copy", place.carry("copy", "tree"))
    assert (row["state"], row["total_bytes"], row["error"]) == (2, len("tree/a/one") + len("tree/two"), "")
    assert shape(place.root / "tree") == shape(place.disk / "tree") == ["a", "a/one", "empty", "empty/deep", "two"]
    before = place.staged()
    row = place.ended("move", place.carry("move", "tree", overwrite=True))
    assert row["state"] == 2, row
    assert not (place.disk / "tree").exists()
    assert shape(place.root / "tree") == ["a", "a/one", "empty", "empty/deep", "two"]
    assert place.staged() <= before


def shape(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_cancelled_task_ends_cancelled_and_does_its_work_when_it_is_retried(place: Place, kind: str) -> None:
    base = f"/openlist/api/task/{kind}"
    with place.paused(kind):
        id = place.open(kind, "f")
        assert ids(place.client, kind, "undone") == [id]
        assert place.info(kind, id)["state"] == 0
        assert place.client.post(f"{base}/cancel", params={"tid": id}) == {
            "code": 200,
            "message": "success",
            "data": None,
        }
        assert place.info(kind, id)["state"] in (3, 4)
        row = place.ended(kind, id)
    assert (row["state"], row["error"]) == (4, "context canceled")
    assert list(place.root.iterdir()) == []
    assert place.client.ok(f"{base}/cancel", params={"tid": id}) is None
    assert place.info(kind, id) == row
    place.client.ok(f"{base}/retry", params={"tid": id})
    row = place.ended(kind, id)
    assert (row["state"], row["error"], row["progress"]) == (2, "", 100.0)
    assert (place.root / "f").read_bytes() == b"content"


def test_the_some_operations_name_only_those_that_failed(place: Place) -> None:
    base = "/api/task/copy"
    with place.paused("copy"):
        first, second = place.open("copy"), place.open("copy")
        assert post(place.client, f"{base}/cancel_some", [first, "nope", "", "x" * 5000, first])["data"] == {
            id: "task not found" for id in ("nope", "", "x" * 5000)
        }
        assert place.ended("copy", first)["state"] == 4
        assert place.info("copy", second)["state"] == 0
        assert post(place.client, f"{base}/retry_some", [second])["data"] == {}
        assert post(place.client, f"{base}/cancel_some", [])["data"] == {}
    assert [place.ended("copy", id)["state"] for id in (first, second)] == [4, 2]
    assert post(place.client, f"{base}/retry_some", [first, "x"])["data"] == {"x": "task not found"}
    assert place.ended("copy", first)["state"] == 2
    assert post(place.client, f"{base}/delete_some", [first, second, "y"])["data"] == {"y": "task not found"}
    assert post(place.client, f"{base}/delete_some", [first])["data"] == {first: "task not found"}
    assert ids(place.client, "copy", "done") == []
    for bad in ({"ids": [first]}, "text", [1], [None], [[first]]):
        assert post(place.client, f"{base}/delete_some", bad)["code"] == 400


@pytest.mark.parametrize("area", ["task", "admin/task"])
@pytest.mark.parametrize("op", BY_IDS)
def test_the_some_operations_take_no_body_for_none_and_refuse_what_is_no_list(
    admin: Client, area: str, op: str
) -> None:
    for path in (f"{prefix}/api/{area}/copy/{op}" for prefix in DIALECTS):
        assert admin.envelope(admin.http.post(path)) == {"code": 200, "message": "success", "data": {}}
        assert post(admin, path, ["x" * (9 << 20)])["code"] == 413
        assert "invalid JSON" in admin.envelope(admin.http.post(path, content=b"["))["message"]
        assert refusal(post(admin, path, {})) == (400, "invalid request format")
        assert refusal(post(admin, path, "id")) == (400, "invalid request format")
        assert refusal(post(admin, path, [1]))[0] == 400


def test_clearing_and_retrying_act_on_the_states_they_name(place: Place) -> None:
    (place.root / "taken").mkdir()
    base = "/api/task/copy"
    (place.disk / "taken").write_text("x")
    failed = place.carry("copy", "taken", overwrite=True)
    assert place.ended("copy", failed)["state"] == 7
    good = place.open("copy")
    assert place.ended("copy", good)["state"] == 2
    with place.paused("copy"):
        cancelled = place.open("copy")
        place.client.ok(f"{base}/cancel", params={"tid": cancelled})
    assert place.ended("copy", cancelled)["state"] == 4
    assert place.client.ok(f"{base}/clear_succeeded") is None
    assert sorted(ids(place.client, "copy", "done")) == sorted([failed, cancelled])
    (place.root / "taken").rmdir()
    assert place.client.ok(f"{base}/retry_failed") is None
    row = place.ended("copy", failed)
    assert (row["state"], row["error"]) == (2, "")
    assert (place.root / "taken").read_text() == "x"
    assert place.info("copy", cancelled)["state"] == 4
    assert place.client.ok(f"{base}/clear_done") is None
    assert ids(place.client, "copy", "done") == []


def test_a_deleted_task_is_not_done(place: Place) -> None:
    with place.paused("copy"):
        id = place.open("copy", "f")
        after = place.open("copy", "g")
        assert place.client.ok("/api/task/copy/delete", params={"tid": id}) is None
        assert refusal(place.client.post("/api/task/copy/info", params={"tid": id})) == NOT_FOUND
    assert place.ended("copy", after)["state"] == 2
    assert [path.name for path in place.root.iterdir()] == ["g"]
    assert place.client.ok("/api/task/copy/delete", params={"tid": after}) is None
    assert ids(place.client, "copy", "done") == []


@pytest.mark.parametrize("area", ["/api/task", "/api/admin/task"])
@pytest.mark.parametrize("prefix", DIALECTS)
def test_an_unknown_task_or_kind_is_not_found(place: Place, prefix: str, area: str) -> None:
    base, client = f"{prefix}{area}", place.admin
    for verb in BY_TID:
        for query in ({"tid": "nope"}, {"tid": ""}, {}, {"tid": "x" * 21}, {"tid": "ä" * 21}, {"tid": "x" * 5000}):
            assert refusal(client.post(f"{base}/copy/{verb}", params=query)) == NOT_FOUND
    for verb in GETS:
        assert refusal(client.get(f"{base}/nonsense/{verb}"))[0] == 404
    for verb in BY_TID + OF_ALL:
        assert refusal(client.post(f"{base}/nonsense/{verb}", params={"tid": "x"}))[0] == 404
    for verb in BY_IDS:
        assert refusal(post(client, f"{base}/nonsense/{verb}", ["x"]))[0] == 404
    assert refusal(client.get(f"{base}/copy/nonsense"))[0] == 404


def test_a_task_is_found_under_its_own_kind_only(place: Place) -> None:
    id = place.open("copy")
    place.ended("copy", id)
    for verb in BY_TID:
        assert refusal(place.client.post(f"/api/task/move/{verb}", params={"tid": id})) == NOT_FOUND
    assert ids(place.client, "copy", "done") == [id]


def test_other_users_neither_see_nor_touch_a_task_and_administrators_do(place: Place) -> None:
    id = place.open("copy")
    shown = place.ended("copy", id)
    with fixtures.user(place.service, place.admin, fixtures.ALL_RIGHTS) as other:
        for verb in BY_TID:
            assert refusal(other.post(f"/api/task/copy/{verb}", params={"tid": id})) == NOT_FOUND
        for verb in BY_IDS:
            assert post(other, f"/api/task/copy/{verb}", [id])["data"] == {id: "task not found"}
        for verb in OF_ALL:
            assert other.ok(f"/api/task/copy/{verb}") is None
        assert [ids(other, "copy", shelf) for shelf in GETS] == [[], []]
        for verb in BY_TID + OF_ALL:
            answer = other.post(f"/api/admin/task/copy/{verb}", params={"tid": id})
            assert refusal(answer) == accounts.NOT_ADMIN
        for verb in BY_IDS:
            assert refusal(post(other, f"/api/admin/task/copy/{verb}", [id])) == accounts.NOT_ADMIN
        for verb in GETS:
            assert refusal(other.get(f"/api/admin/task/copy/{verb}")) == accounts.NOT_ADMIN
    assert place.info("copy", id) == shown
    assert shown in place.admin.get("/openlist/api/task/copy/done")["data"]
    assert place.admin.ok("/api/admin/task/copy/retry", params={"tid": id}) is None
    assert place.ended("copy", id)["state"] == 2
    assert post(place.admin, "/api/admin/task/copy/cancel_some", [id, "q"])["data"] == {"q": "task not found"}
    assert post(place.admin, "/api/admin/task/copy/retry_some", ["q"])["data"] == {"q": "task not found"}
    assert post(place.admin, "/api/admin/task/copy/delete_some", [id])["data"] == {}
    assert ids(place.client, "copy", "done") == []


def test_administrators_cancel_clear_and_retry_the_tasks_of_all(place: Place) -> None:
    base = "/api/admin/task/move"
    with place.paused("move"):
        first, second = place.open("move"), place.open("move")
        assert {first, second} <= {row["id"] for row in place.admin.get(f"{base}/undone")["data"]}
        assert place.admin.ok(f"{base}/cancel", params={"tid": first}) is None
    assert [place.ended("move", id)["state"] for id in (first, second)] == [4, 2]
    assert place.admin.ok(f"{base}/retry_failed") is None
    assert place.admin.ok(f"{base}/clear_succeeded") is None
    assert ids(place.client, "move", "done") == [first]
    assert place.admin.ok(f"{base}/clear_done") is None
    assert ids(place.client, "move", "done") == []
    third = place.open("move")
    place.ended("move", third)
    assert place.admin.ok(f"{base}/delete", params={"tid": third}) is None
    assert ids(place.client, "move", "done") == []


def test_the_guest_and_strangers_have_no_tasks(place: Place) -> None:
    nobody = place.service.anonymous()
    answers = [nobody.get(f"/api/task/copy/{verb}") for verb in GETS]
    answers += [nobody.post(f"/api/task/copy/{verb}", params={"tid": "x"}) for verb in BY_TID + OF_ALL]
    answers += [post(nobody, f"/api/task/copy/{verb}", ["x"]) for verb in BY_IDS]
    assert {refusal(answer) for answer in answers} == {accounts.GUEST_DISABLED}
    with accounts.guest(place.admin) as guest:
        answers = [guest.get(f"/api/task/copy/{verb}") for verb in GETS]
        answers += [guest.post(f"/api/task/copy/{verb}", params={"tid": "x"}) for verb in BY_TID + OF_ALL]
        answers += [post(guest, f"/api/task/copy/{verb}", ["x"]) for verb in BY_IDS]
        assert {refusal(answer)[0] for answer in answers} <= {401, 403}


def test_lists_come_in_pages_where_they_are_asked_for(place: Place) -> None:
    with place.paused("copy"):
        made = [place.open("copy") for _ in range(5)]
        base = "/api/task/copy/undone"

        def page(**query: Any) -> list[str]:
            return [row["id"] for row in place.client.get(base, **query)["data"]]

        assert page() == page(page=1) == page(per_page=0) == made
        assert page(page=1, per_page=2) == made[:2]
        assert page(page=3, per_page=2) == made[4:]
        assert page(page=4, per_page=2) == []
        assert page(per_page=3) == made[:3]
        assert page(page=-1, per_page=2) == made[:2]
        for bad in ("x", "1.5", "1e3"):
            assert place.client.get(base, page=bad)["code"] == 400
    for id in made:
        place.ended("copy", id)
    assert [row["id"] for row in place.client.get("/api/task/copy/done", page=2, per_page=4)["data"]] == made[4:]


@pytest.mark.parametrize("route", ["put", "form"])
def test_what_an_upload_may_not_do_is_refused_before_anything_is_staged(place: Place, route: str) -> None:
    (place.root / "there").write_text("old")
    (place.root / "folder").mkdir()
    before = place.staged()
    path = f"{place.mount}/there"
    assert refusal(send(place.client, route, path, b"new", overwrite="false")) == (403, "file exists")
    assert send(place.client, route, f"{place.mount}/folder", b"new")["code"] == 500
    assert send(place.client, route, f"{place.mount}/../up/there", b"new")["code"] == 403
    assert send(place.client, route, "/no/such/storage", b"new")["code"] != 200
    digest = {"x-file-md5": "0" * 32}
    assert refusal(send(place.client, route, f"{place.mount}/wrong", b"new", **digest))[0] == 400
    rights = fixtures.ALL_RIGHTS & ~fixtures.WRITE
    with fixtures.user(place.service, place.admin, rights) as reader:
        assert refusal(send(reader, route, f"{place.mount}/n", b"new"))[0] == 403
        assert ids(reader, "upload", "undone") + ids(reader, "upload", "done") == []
    assert refusal(send(place.service.anonymous(), route, path, b"new")) == accounts.GUEST_DISABLED
    assert place.staged() == before
    assert ids(place.client, "upload", "undone") + ids(place.client, "upload", "done") == []
    assert {path.name for path in place.root.iterdir()} == {"there", "folder"}
    assert (place.root / "there").read_text() == "old"


def test_an_upload_that_does_not_overwrite_spares_a_file_that_came_meanwhile(place: Place) -> None:
    with place.paused("upload"):
        answer = send(place.client, "put", f"{place.mount}/f", b"uploaded", overwrite="false")
        (place.root / "f").write_text("somebody else's")
    row = place.ended("upload", answer["data"]["task"]["id"])
    assert (row["state"], (place.root / "f").read_text()) == (7, "somebody else's")
    assert "file exists" in row["error"]
    assert row["id"] in place.staged()
    (place.root / "f").unlink()
    place.client.ok("/api/task/upload/retry", params={"tid": row["id"]})
    assert place.ended("upload", row["id"])["state"] == 2
    assert (place.root / "f").read_text() == "uploaded"
    assert row["id"] not in place.staged()


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_carrying_is_refused_at_once_without_the_right(place: Place, verb: str) -> None:
    (place.disk / "f").write_text("x")
    right = {"copy": fixtures.COPY, "move": fixtures.MOVE}[verb]
    with fixtures.user(place.service, place.admin, fixtures.ALL_RIGHTS & ~right) as client:
        body = {"src_dir": place.folder, "dst_dir": place.mount, "names": ["f"]}
        assert refusal(client.post(f"/api/fs/{verb}", **body)) == (403, "permission denied")
        assert ids(client, verb, "undone") + ids(client, verb, "done") == []
    assert list(place.root.iterdir()) == []


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_a_taken_name_is_refused_or_skipped_or_overwritten_as_asked(place: Place, verb: str) -> None:
    (place.disk / "f").write_text("new")
    (place.root / "f").write_text("old")
    body = {"src_dir": place.folder, "dst_dir": place.mount, "names": ["f"]}
    assert refusal(place.client.post(f"/api/fs/{verb}", **body)) == (403, "file [f] exists")
    done = {"message": f"{verb.capitalize()} operations completed immediately"}
    assert place.client.ok(f"/openlist/api/fs/{verb}", **body, skip_existing=True) == done
    assert (place.root / "f").read_text() == "old"
    assert place.ended(verb, place.carry(verb, "f", overwrite=True))["state"] == 2
    assert (place.root / "f").read_text() == "new"
    assert (place.disk / "f").exists() == (verb == "copy")


def broken_tree(place: Place, verb: str) -> tuple[str, dict[str, Any]]:
    """A tree of which one file could not be carried; the task and its record."""
    for name in ("a.txt", "sub/b.txt", "sub/c.txt"):
        (place.disk / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (place.disk / "tree" / name).write_text(name)
    (place.root / "tree/sub/b.txt/in the way").mkdir(parents=True)
    id = place.carry(verb, "tree", overwrite=True)
    return id, place.ended(verb, id)


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_an_item_that_fails_is_named_and_a_retry_does_only_what_is_missing(place: Place, verb: str) -> None:
    id, row = broken_tree(place, verb)
    assert row["state"] == 7
    assert "sub/b.txt" in row["error"]
    assert row["error"].startswith("1 of ")
    assert "a.txt" not in row["error"]
    assert (place.root / "tree/a.txt").read_text() == "a.txt"
    assert (place.root / "tree/sub/c.txt").read_text() == "sub/c.txt"
    assert (place.disk / "tree/sub/b.txt").read_text() == "sub/b.txt"
    place.client.ok(f"/api/task/{verb}/retry", params={"tid": id})
    again = place.ended(verb, id)
    assert (again["state"], again["error"]) == (7, "1 of 1 items failed: sub/b.txt: file exists")
    (place.root / "tree/sub/b.txt/in the way").rmdir()
    (place.root / "tree/sub/b.txt").rmdir()
    (place.root / "tree/a.txt").write_text("touched since")
    place.client.ok(f"/api/task/{verb}/retry", params={"tid": id})
    row = place.ended(verb, id)
    assert (row["state"], row["error"]) == (2, "")
    assert (place.root / "tree/sub/b.txt").read_text() == "sub/b.txt"
    assert (place.root / "tree/a.txt").read_text() == "touched since"
    assert (place.disk / "tree").exists() == (verb == "copy")


@pytest.mark.parametrize("kind", ["copy", "move"])
def test_a_source_that_is_gone_fails_the_task_and_a_retry_finds_it_again(place: Place, kind: str) -> None:
    with place.paused(kind):
        id = place.open(kind, "f")
        (place.disk / "f").unlink()
    row = place.ended(kind, id)
    assert (row["state"], "object not found" in row["error"]) == (7, True)
    assert list(place.root.iterdir()) == []
    (place.disk / "f").write_text("back")
    place.client.ok(f"/api/task/{kind}/retry", params={"tid": id})
    assert place.ended(kind, id)["state"] == 2
    assert (place.root / "f").read_text() == "back"


def while_waiting(place: Place, verb: str, happens: Callable[[], object], **more: bool) -> dict[str, Any]:
    """The record of a task before whose first slice something happened."""
    (place.disk / "f").write_text("source")
    with place.paused(verb):
        id = place.carry(verb, "f", **more)
        happens()
    return place.ended(verb, id)


def test_a_move_keeps_what_it_was_to_skip(place: Place) -> None:
    row = while_waiting(place, "move", lambda: (place.root / "f").write_text("others"), skip_existing=True)
    assert (place.disk / "f").read_text() == "source"
    assert (place.root / "f").read_text() == "others"
    assert row["state"] in (2, 7)


@pytest.mark.parametrize("more", [{}, {"skip_existing": True}])
def test_a_move_keeps_its_source_when_the_target_only_looks_the_same(place: Place, more: dict[str, bool]) -> None:
    row = while_waiting(place, "move", lambda: (place.root / "f").write_text("ecruos"), **more)
    assert (place.disk / "f").read_text() == "source"
    assert (place.root / "f").read_text() == "ecruos"
    if not more:
        assert (row["state"], "file exists" in row["error"]) == (7, True)


def test_a_move_finishes_what_a_worker_that_died_has_stored(place: Place) -> None:
    row = while_waiting(place, "move", lambda: (place.root / "f").write_text("source"))
    assert row["state"] == 2
    assert not (place.disk / "f").exists()
    assert (place.root / "f").read_text() == "source"


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_a_task_has_the_rights_that_its_owner_has_now(place: Place, verb: str) -> None:
    users = place.admin.get("/api/admin/user/list")["data"]["content"]
    name = place.client.get("/api/me")["data"]["username"]
    row = next(one for one in users if one["username"] == name)
    ended = while_waiting(
        place, verb, lambda: place.admin.ok("/api/admin/user/update", **(row | {"permission": fixtures.WRITE}))
    )
    assert (ended["state"], ended["error"]) == (7, "permission denied")
    assert list(place.root.iterdir()) == []
    assert (place.disk / "f").exists()
    place.admin.ok("/api/admin/user/update", **row)
    place.client.ok(f"/api/task/{verb}/retry", params={"tid": ended["id"]})
    assert place.ended(verb, ended["id"])["state"] == 2
