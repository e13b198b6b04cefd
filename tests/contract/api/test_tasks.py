"""Tasks over HTTP: how uploads, copies and moves are shown, cancelled, retried and cleared, and by whom."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.contract.api import accounts, fixtures
from tests.contract.api.accounts import get_refusal
from tests.contract.api.transfer_client import KINDS, TransferClient, list_ids, send
from tests.support.service import Client

DIALECTS = ["", "/openlist"]
CREATED = {"id", "name", "state", "status", "progress", "error"}
FIELDS = CREATED | {"creator", "creator_role", "start_time", "end_time", "total_bytes"}
NOT_FOUND = (404, "task not found")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
GETS = ["undone", "done"]
BY_TID = ["info", "cancel", "delete", "retry"]
BY_IDS = ["cancel_some", "delete_some", "retry_some"]
OF_ALL = ["clear_done", "clear_succeeded", "retry_failed"]


def post(client: Client, path: str, body: Any) -> dict[str, Any]:
    return client.envelope(client.http.post(path, json=body))


def test_a_task_is_shown_with_exactly_these_fields_in_both_dialects(transfers: TransferClient) -> None:
    for kind in KINDS:
        id = transfers.start(kind, f"{kind}.txt", b"x" * 1000)
        shown = transfers.wait_for(kind, id)
        username = transfers.client.get("/api/me")["data"]["username"]
        assert set(shown) == FIELDS
        name = {
            "upload": f"upload upload.txt to [{transfers.mount}](/)",
            "copy": f"copy [/files]({transfers.folder.removeprefix('/files')}/copy.txt) to [{transfers.mount}](/)",
            "move": f"move [/files]({transfers.folder.removeprefix('/files')}/move.txt) to [{transfers.mount}](/)",
        }[kind]
        expected = {"id": id, "name": name, "creator": username, "creator_role": 0, "state": 2, "error": ""}
        assert shown | expected == shown
        assert re.fullmatch(r"[A-Za-z0-9_-]{21}", id)
        assert (shown["progress"], shown["total_bytes"], shown["status"]) == (100.0, 1000, "uploading")
        assert TIME.fullmatch(shown["start_time"])
        assert TIME.fullmatch(shown["end_time"])
        details = {"done_bytes": 1000, "done_items": 1, "total_items": 1, "current_item": f"{kind}.txt"}
        by_document = shown | {"state": "succeeded"} | details
        assert transfers.client.ok(f"/api/task/{kind}/info", params={"tid": id}) == [by_document]
        assert transfers.client.get(f"/api/task/{kind}/done")["data"] == [by_document]
        assert transfers.client.get(f"/openlist/api/task/{kind}/done")["data"] == [shown]
        for prefix in DIALECTS:
            base = f"{prefix}/api/admin/task/{kind}"
            assert transfers.admin.ok(f"{base}/info", params={"tid": id}) == shown
            assert shown in transfers.admin.get(f"{base}/done")["data"]
            assert id not in [row["id"] for row in transfers.admin.get(f"{base}/undone")["data"]]
        assert (transfers.root / f"{kind}.txt").read_bytes() == b"x" * 1000
        assert (transfers.disk / f"{kind}.txt").exists() == (kind == "copy")


@pytest.mark.parametrize("route", ["put", "form"])
@pytest.mark.parametrize("prefix", DIALECTS)
def test_an_upload_as_a_task_answers_the_task_at_once(transfers: TransferClient, route: str, prefix: str) -> None:
    answer = send(transfers.client, route, f"{transfers.mount}/deep/er/f.bin", b"12345", prefix)
    task = answer["data"].pop("task")
    assert (answer["code"], answer["data"]) == (200, {})
    assert set(task) == (FIELDS if prefix else CREATED)
    assert (task["state"], task["status"], task["progress"], task["error"]) == (0, "uploading", 0, "")
    assert task["name"] == f"upload f.bin to [{transfers.mount}](/deep/er)"
    if prefix:
        assert (task["total_bytes"], task["start_time"], task["end_time"]) == (5, None, None)
    assert transfers.wait_for("upload", task["id"])["state"] == 2
    assert (transfers.root / "deep/er/f.bin").read_bytes() == b"12345"
    assert task["id"] not in transfers.list_staged()


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_copies_and_moves_answer_in_both_dialects(transfers: TransferClient, verb: str) -> None:
    for name in "abc":
        (transfers.disk / name).write_text(name)
    body = {"src_dir": transfers.folder, "dst_dir": transfers.mount}
    assert transfers.client.ok(f"/api/fs/{verb}", **body, names=["a"]) is None
    data = transfers.client.ok(f"/openlist/api/fs/{verb}", **body, names=["b", "c"])
    assert data["message"] == f"Successfully created 2 {verb} task(s)"
    for task in data["tasks"]:
        assert set(task) == FIELDS
        assert (task["state"], task["status"], task["progress"], task["total_bytes"]) == (0, "", 0, 0)
        assert (task["start_time"], task["end_time"], task["error"]) == (None, None, "")
    for id in [*list_ids(transfers.client, verb, "undone"), *list_ids(transfers.client, verb, "done")]:
        assert transfers.wait_for(verb, id)["state"] == 2
    assert {path.name: path.read_text() for path in transfers.root.iterdir()} == {name: name for name in "abc"}
    assert sorted(path.name for path in transfers.disk.iterdir()) == (["a", "b", "c"] if verb == "copy" else [])
    (transfers.disk / "d").write_text("d")
    transfers.client.ok("/api/fs/mkdir", path=f"{transfers.folder}/in")
    done = transfers.client.ok(
        f"/openlist/api/fs/{verb}", src_dir=transfers.folder, dst_dir=f"{transfers.folder}/in", names=["d"]
    )
    assert done == {"message": f"{verb.capitalize()} operations completed immediately"}


def test_a_folder_is_one_task_that_keeps_its_empty_folders(transfers: TransferClient) -> None:
    for name in ("tree/a/one", "tree/two"):
        (transfers.disk / name).parent.mkdir(parents=True, exist_ok=True)
        (transfers.disk / name).write_text(name)
    (transfers.disk / "tree/empty/deep").mkdir(parents=True)
    row = transfers.wait_for("copy", transfers.carry("copy", "tree"))
    assert (row["state"], row["total_bytes"], row["error"]) == (2, len("tree/a/one") + len("tree/two"), "")
    assert (
        list_shape(transfers.root / "tree")
        == list_shape(transfers.disk / "tree")
        == ["a", "a/one", "empty", "empty/deep", "two"]
    )
    before = transfers.list_staged()
    row = transfers.wait_for("move", transfers.carry("move", "tree", overwrite=True))
    assert row["state"] == 2, row
    assert not (transfers.disk / "tree").exists()
    assert list_shape(transfers.root / "tree") == ["a", "a/one", "empty", "empty/deep", "two"]
    assert transfers.list_staged() <= before


def list_shape(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("kind", KINDS)
def test_cancelled_task_runs_when_retried(transfers: TransferClient, kind: str) -> None:
    base = f"/openlist/api/task/{kind}"
    with transfers.pause(kind):
        id = transfers.start(kind, "f")
        assert list_ids(transfers.client, kind, "undone") == [id]
        assert transfers.info(kind, id)["state"] == 0
        assert transfers.client.post(f"{base}/cancel", params={"tid": id}) == {
            "code": 200,
            "message": "success",
            "data": None,
        }
        assert transfers.info(kind, id)["state"] in (3, 4)
        row = transfers.wait_for(kind, id)
    assert (row["state"], row["error"]) == (4, "context canceled")
    assert list(transfers.root.iterdir()) == []
    assert transfers.client.ok(f"{base}/cancel", params={"tid": id}) is None
    assert transfers.info(kind, id) == row
    transfers.client.ok(f"{base}/retry", params={"tid": id})
    row = transfers.wait_for(kind, id)
    assert (row["state"], row["error"], row["progress"]) == (2, "", 100.0)
    assert (transfers.root / "f").read_bytes() == b"content"


def test_the_some_operations_name_only_those_that_failed(transfers: TransferClient) -> None:
    base = "/api/task/copy"
    with transfers.pause("copy"):
        first, second = transfers.start("copy"), transfers.start("copy")
        assert post(transfers.client, f"{base}/cancel_some", [first, "nope", "", "x" * 5000, first])["data"] == {
            id: "task not found" for id in ("nope", "", "x" * 5000)
        }
        assert transfers.wait_for("copy", first)["state"] == 4
        assert transfers.info("copy", second)["state"] == 0
        assert post(transfers.client, f"{base}/retry_some", [second])["data"] == {}
        assert post(transfers.client, f"{base}/cancel_some", [])["data"] == {}
    assert [transfers.wait_for("copy", id)["state"] for id in (first, second)] == [4, 2]
    assert post(transfers.client, f"{base}/retry_some", [first, "x"])["data"] == {"x": "task not found"}
    assert transfers.wait_for("copy", first)["state"] == 2
    assert post(transfers.client, f"{base}/delete_some", [first, second, "y"])["data"] == {"y": "task not found"}
    assert post(transfers.client, f"{base}/delete_some", [first])["data"] == {first: "task not found"}
    assert list_ids(transfers.client, "copy", "done") == []
    for bad in ({"ids": [first]}, "text", [1], [None], [[first]]):
        assert post(transfers.client, f"{base}/delete_some", bad)["code"] == 400


@pytest.mark.parametrize("area", ["task", "admin/task"])
@pytest.mark.parametrize("op", BY_IDS)
def test_some_operations_refuse_body_that_is_not_a_list(admin: Client, area: str, op: str) -> None:
    for path in (f"{prefix}/api/{area}/copy/{op}" for prefix in DIALECTS):
        assert admin.envelope(admin.http.post(path)) == {"code": 200, "message": "success", "data": {}}
        assert post(admin, path, ["x" * (9 << 20)])["code"] == 413
        assert "invalid JSON" in admin.envelope(admin.http.post(path, content=b"["))["message"]
        assert get_refusal(post(admin, path, {})) == (400, "invalid request format")
        assert get_refusal(post(admin, path, "id")) == (400, "invalid request format")
        assert get_refusal(post(admin, path, [1]))[0] == 400


def test_clearing_and_retrying_act_on_the_states_they_name(transfers: TransferClient) -> None:
    (transfers.root / "taken").mkdir()
    base = "/api/task/copy"
    (transfers.disk / "taken").write_text("x")
    failed = transfers.carry("copy", "taken", overwrite=True)
    assert transfers.wait_for("copy", failed)["state"] == 7
    good = transfers.start("copy")
    assert transfers.wait_for("copy", good)["state"] == 2
    with transfers.pause("copy"):
        cancelled = transfers.start("copy")
        transfers.client.ok(f"{base}/cancel", params={"tid": cancelled})
    assert transfers.wait_for("copy", cancelled)["state"] == 4
    assert transfers.client.ok(f"{base}/clear_succeeded") is None
    assert sorted(list_ids(transfers.client, "copy", "done")) == sorted([failed, cancelled])
    (transfers.root / "taken").rmdir()
    assert transfers.client.ok(f"{base}/retry_failed") is None
    row = transfers.wait_for("copy", failed)
    assert (row["state"], row["error"]) == (2, "")
    assert (transfers.root / "taken").read_text() == "x"
    assert transfers.info("copy", cancelled)["state"] == 4
    assert transfers.client.ok(f"{base}/clear_done") is None
    assert list_ids(transfers.client, "copy", "done") == []


def test_a_deleted_task_is_not_done(transfers: TransferClient) -> None:
    with transfers.pause("copy"):
        id = transfers.start("copy", "f")
        after = transfers.start("copy", "g")
        assert transfers.client.ok("/api/task/copy/delete", params={"tid": id}) is None
        assert get_refusal(transfers.client.post("/api/task/copy/info", params={"tid": id})) == NOT_FOUND
    assert transfers.wait_for("copy", after)["state"] == 2
    assert [path.name for path in transfers.root.iterdir()] == ["g"]
    assert transfers.client.ok("/api/task/copy/delete", params={"tid": after}) is None
    assert list_ids(transfers.client, "copy", "done") == []


@pytest.mark.parametrize("area", ["/api/task", "/api/admin/task"])
@pytest.mark.parametrize("prefix", DIALECTS)
def test_an_unknown_task_or_kind_is_not_found(transfers: TransferClient, prefix: str, area: str) -> None:
    base, client = f"{prefix}{area}", transfers.admin
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


def test_a_task_is_found_under_its_own_kind_only(transfers: TransferClient) -> None:
    id = transfers.start("copy")
    transfers.wait_for("copy", id)
    for verb in BY_TID:
        assert get_refusal(transfers.client.post(f"/api/task/move/{verb}", params={"tid": id})) == NOT_FOUND
    assert list_ids(transfers.client, "copy", "done") == [id]


def test_other_users_neither_see_nor_touch_a_task_and_administrators_do(transfers: TransferClient) -> None:
    id = transfers.start("copy")
    shown = transfers.wait_for("copy", id)
    with fixtures.user(transfers.service, transfers.admin, fixtures.ALL_RIGHTS) as other:
        for verb in BY_TID:
            assert get_refusal(other.post(f"/api/task/copy/{verb}", params={"tid": id})) == NOT_FOUND
        for verb in BY_IDS:
            assert post(other, f"/api/task/copy/{verb}", [id])["data"] == {id: "task not found"}
        for verb in OF_ALL:
            assert other.ok(f"/api/task/copy/{verb}") is None
        assert [list_ids(other, "copy", status_key) for status_key in GETS] == [[], []]
    assert transfers.info("copy", id) == shown
    assert shown in transfers.admin.get("/openlist/api/task/copy/done")["data"]
    assert transfers.admin.ok("/api/admin/task/copy/retry", params={"tid": id}) is None
    assert transfers.wait_for("copy", id)["state"] == 2
    assert post(transfers.admin, "/api/admin/task/copy/cancel_some", [id, "q"])["data"] == {"q": "task not found"}
    assert post(transfers.admin, "/api/admin/task/copy/retry_some", ["q"])["data"] == {"q": "task not found"}
    assert post(transfers.admin, "/api/admin/task/copy/delete_some", [id])["data"] == {}
    assert list_ids(transfers.client, "copy", "done") == []


def test_administrators_cancel_clear_and_retry_the_tasks_of_all(transfers: TransferClient) -> None:
    base = "/api/admin/task/move"
    with transfers.pause("move"):
        first, second = transfers.start("move"), transfers.start("move")
        assert {first, second} <= {row["id"] for row in transfers.admin.get(f"{base}/undone")["data"]}
        assert transfers.admin.ok(f"{base}/cancel", params={"tid": first}) is None
    assert [transfers.wait_for("move", id)["state"] for id in (first, second)] == [4, 2]
    assert transfers.admin.ok(f"{base}/retry_failed") is None
    assert transfers.admin.ok(f"{base}/clear_succeeded") is None
    assert list_ids(transfers.client, "move", "done") == [first]
    assert transfers.admin.ok(f"{base}/clear_done") is None
    assert list_ids(transfers.client, "move", "done") == []
    third = transfers.start("move")
    transfers.wait_for("move", third)
    assert transfers.admin.ok(f"{base}/delete", params={"tid": third}) is None
    assert list_ids(transfers.client, "move", "done") == []


def test_the_guest_and_strangers_have_no_tasks(transfers: TransferClient) -> None:
    nobody = transfers.service.anonymous()
    answers = [nobody.get(f"/api/task/copy/{verb}") for verb in GETS]
    answers += [nobody.post(f"/api/task/copy/{verb}", params={"tid": "x"}) for verb in BY_TID + OF_ALL]
    answers += [post(nobody, f"/api/task/copy/{verb}", ["x"]) for verb in BY_IDS]
    assert {get_refusal(answer) for answer in answers} == {accounts.GUEST_DISABLED}
    with accounts.guest(transfers.admin) as guest:
        answers = [guest.get(f"/api/task/copy/{verb}") for verb in GETS]
        answers += [guest.post(f"/api/task/copy/{verb}", params={"tid": "x"}) for verb in BY_TID + OF_ALL]
        answers += [post(guest, f"/api/task/copy/{verb}", ["x"]) for verb in BY_IDS]
        assert {get_refusal(answer)[0] for answer in answers} <= {401, 403}


def test_lists_come_in_pages_where_they_are_asked_for(transfers: TransferClient) -> None:
    with transfers.pause("copy"):
        made = [transfers.start("copy") for _ in range(5)]
        base = "/api/task/copy/undone"

        def list_page(**query: Any) -> list[str]:
            return [row["id"] for row in transfers.client.get(base, **query)["data"]]

        assert list_page() == list_page(page=1) == list_page(per_page=0) == made
        assert list_page(page=1, per_page=2) == made[:2]
        assert list_page(page=3, per_page=2) == made[4:]
        assert list_page(page=4, per_page=2) == []
        assert list_page(per_page=3) == made[:3]
        assert list_page(page=-1, per_page=2) == made[:2]
        for bad in ("x", "1.5", "1e3"):
            assert transfers.client.get(base, page=bad)["code"] == 400
    for id in made:
        transfers.wait_for("copy", id)
    pages = [transfers.client.get("/api/task/copy/done", page=page, per_page=4)["data"] for page in (1, 2)]
    assert list(map(len, pages)) == [4, 1]
    ends = [row["end_time"][: len("2026-11-23T04:41:31.809")] for page in pages for row in page]  # to the millisecond
    assert ends == sorted(ends, reverse=True) and {row["id"] for page in pages for row in page} == set(made)
