"""Tasks over HTTP: what uploads, copies and moves refuse, overwrite, keep and finish."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.api import accounts, fixtures
from tests.contract.api.accounts import get_refusal
from tests.contract.api.transfer_client import TransferClient, list_ids, send


@pytest.mark.parametrize("route", ["put", "form"])
def test_what_an_upload_may_not_do_is_refused_before_anything_is_staged(transfers: TransferClient, route: str) -> None:
    (transfers.root / "there").write_text("old")
    (transfers.root / "folder").mkdir()
    before = transfers.list_staged()
    path = f"{transfers.mount}/there"
    assert get_refusal(send(transfers.client, route, path, b"new", overwrite="false")) == (403, "file exists")
    assert send(transfers.client, route, f"{transfers.mount}/folder", b"new")["code"] == 500
    assert send(transfers.client, route, f"{transfers.mount}/../up/there", b"new")["code"] == 403
    assert send(transfers.client, route, "/no/such/storage", b"new")["code"] != 200
    digest = {"x-file-md5": "0" * 32}
    assert get_refusal(send(transfers.client, route, f"{transfers.mount}/wrong", b"new", **digest))[0] == 400
    rights = fixtures.ALL_RIGHTS & ~fixtures.WRITE
    with fixtures.user(transfers.service, transfers.admin, rights) as reader:
        assert get_refusal(send(reader, route, f"{transfers.mount}/n", b"new"))[0] == 403
        assert list_ids(reader, "upload", "undone") + list_ids(reader, "upload", "done") == []
    assert get_refusal(send(transfers.service.anonymous(), route, path, b"new")) == accounts.GUEST_DISABLED
    assert transfers.list_staged() <= before  # of which what others left may go meanwhile
    assert list_ids(transfers.client, "upload", "undone") + list_ids(transfers.client, "upload", "done") == []
    assert {path.name for path in transfers.root.iterdir()} == {"there", "folder"}
    assert (transfers.root / "there").read_text() == "old"


def test_upload_without_overwrite_keeps_file_created_meanwhile(transfers: TransferClient) -> None:
    with transfers.pause("upload"):
        answer = send(transfers.client, "put", f"{transfers.mount}/f", b"uploaded", overwrite="false")
        (transfers.root / "f").write_text("somebody else's")
    row = transfers.wait_for("upload", answer["data"]["task"]["id"])
    assert (row["state"], (transfers.root / "f").read_text()) == (7, "somebody else's")
    assert "file exists" in row["error"]
    assert row["id"] in transfers.list_staged()
    (transfers.root / "f").unlink()
    transfers.client.ok("/api/task/upload/retry", params={"tid": row["id"]})
    assert transfers.wait_for("upload", row["id"])["state"] == 2
    assert (transfers.root / "f").read_text() == "uploaded"
    assert row["id"] not in transfers.list_staged()


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_carrying_is_refused_at_once_without_the_right(transfers: TransferClient, verb: str) -> None:
    (transfers.disk / "f").write_text("x")
    right = {"copy": fixtures.COPY, "move": fixtures.MOVE}[verb]
    with fixtures.user(transfers.service, transfers.admin, fixtures.ALL_RIGHTS & ~right) as client:
        body = {"src_dir": transfers.folder, "dst_dir": transfers.mount, "names": ["f"]}
        assert get_refusal(client.post(f"/api/fs/{verb}", **body)) == (403, "permission denied")
        assert list_ids(client, verb, "undone") + list_ids(client, verb, "done") == []
    assert list(transfers.root.iterdir()) == []


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_a_taken_name_is_refused_or_skipped_or_overwritten_as_asked(transfers: TransferClient, verb: str) -> None:
    (transfers.disk / "f").write_text("new")
    (transfers.root / "f").write_text("old")
    body = {"src_dir": transfers.folder, "dst_dir": transfers.mount, "names": ["f"]}
    assert get_refusal(transfers.client.post(f"/api/fs/{verb}", **body)) == (403, "file [f] exists")
    done = {"message": f"{verb.capitalize()} operations completed immediately"}
    assert transfers.client.ok(f"/openlist/api/fs/{verb}", **body, skip_existing=True) == done
    assert (transfers.root / "f").read_text() == "old"
    assert transfers.wait_for(verb, transfers.carry(verb, "f", overwrite=True))["state"] == 2
    assert (transfers.root / "f").read_text() == "new"
    assert (transfers.disk / "f").exists() == (verb == "copy")


def start_broken_tree(transfers: TransferClient, verb: str) -> tuple[str, dict[str, Any]]:
    """A tree with one file that could not be transferred; the task and its record."""
    for name in ("a.txt", "sub/b.txt", "sub/c.txt"):
        (transfers.disk / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (transfers.disk / "tree" / name).write_text(name)
    (transfers.root / "tree/sub/b.txt/in the way").mkdir(parents=True)
    id = transfers.carry(verb, "tree", overwrite=True)
    return id, transfers.wait_for(verb, id)


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_an_item_that_fails_is_named_and_a_retry_does_only_what_is_missing(
    transfers: TransferClient, verb: str
) -> None:
    id, row = start_broken_tree(transfers, verb)
    assert row["state"] == 7
    assert "sub/b.txt" in row["error"]
    assert row["error"].startswith("1 of ")
    assert "a.txt" not in row["error"]
    assert (transfers.root / "tree/a.txt").read_text() == "a.txt"
    assert (transfers.root / "tree/sub/c.txt").read_text() == "sub/c.txt"
    assert (transfers.disk / "tree/sub/b.txt").read_text() == "sub/b.txt"
    transfers.client.ok(f"/api/task/{verb}/retry", params={"tid": id})
    again = transfers.wait_for(verb, id)
    assert (again["state"], again["error"]) == (7, "1 of 1 items failed: sub/b.txt: file exists")
    (transfers.root / "tree/sub/b.txt/in the way").rmdir()
    (transfers.root / "tree/sub/b.txt").rmdir()
    (transfers.root / "tree/a.txt").write_text("touched since")
    transfers.client.ok(f"/api/task/{verb}/retry", params={"tid": id})
    row = transfers.wait_for(verb, id)
    assert (row["state"], row["error"]) == (2, "")
    assert (transfers.root / "tree/sub/b.txt").read_text() == "sub/b.txt"
    assert (transfers.root / "tree/a.txt").read_text() == "touched since"
    assert (transfers.disk / "tree").exists() == (verb == "copy")


@pytest.mark.parametrize("kind", ["copy", "move"])
def test_a_source_that_is_gone_fails_the_task_and_a_retry_finds_it_again(transfers: TransferClient, kind: str) -> None:
    with transfers.pause(kind):
        id = transfers.start(kind, "f")
        (transfers.disk / "f").unlink()
    row = transfers.wait_for(kind, id)
    assert (row["state"], "object not found" in row["error"]) == (7, True)
    assert list(transfers.root.iterdir()) == []
    (transfers.disk / "f").write_text("back")
    transfers.client.ok(f"/api/task/{kind}/retry", params={"tid": id})
    assert transfers.wait_for(kind, id)["state"] == 2
    assert (transfers.root / "f").read_text() == "back"


def run_while_waiting(
    transfers: TransferClient, verb: str, happens: Callable[[], object], **more: bool
) -> dict[str, Any]:
    """Return the record of a task before whose first step something happened."""
    (transfers.disk / "f").write_text("source")
    with transfers.pause(verb):
        id = transfers.carry(verb, "f", **more)
        happens()
    return transfers.wait_for(verb, id)


def test_a_move_keeps_what_it_was_to_skip(transfers: TransferClient) -> None:
    row = run_while_waiting(transfers, "move", lambda: (transfers.root / "f").write_text("others"), skip_existing=True)
    assert (transfers.disk / "f").read_text() == "source"
    assert (transfers.root / "f").read_text() == "others"
    assert row["state"] in (2, 7)


@pytest.mark.parametrize("more", [{}, {"skip_existing": True}])
def test_a_move_keeps_its_source_when_the_target_only_looks_the_same(
    transfers: TransferClient, more: dict[str, bool]
) -> None:
    row = run_while_waiting(transfers, "move", lambda: (transfers.root / "f").write_text("ecruos"), **more)
    assert (transfers.disk / "f").read_text() == "source"
    assert (transfers.root / "f").read_text() == "ecruos"
    if not more:
        assert (row["state"], "file exists" in row["error"]) == (7, True)


def test_a_move_finishes_what_a_worker_that_died_has_stored(transfers: TransferClient) -> None:
    row = run_while_waiting(transfers, "move", lambda: (transfers.root / "f").write_text("source"))
    assert row["state"] == 2
    assert not (transfers.disk / "f").exists()
    assert (transfers.root / "f").read_text() == "source"


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_a_task_has_the_rights_that_its_owner_has_now(transfers: TransferClient, verb: str) -> None:
    users = transfers.admin.get("/api/admin/user/list")["data"]["content"]
    name = transfers.client.get("/api/me")["data"]["username"]
    row = next(user for user in users if user["username"] == name)
    ended = run_while_waiting(
        transfers, verb, lambda: transfers.admin.ok("/api/admin/user/update", **(row | {"permission": fixtures.WRITE}))
    )
    assert (ended["state"], ended["error"]) == (7, "permission denied")
    assert list(transfers.root.iterdir()) == []
    assert (transfers.disk / "f").exists()
    transfers.admin.ok("/api/admin/user/update", **row)
    transfers.client.ok(f"/api/task/{verb}/retry", params={"tid": ended["id"]})
    assert transfers.wait_for(verb, ended["id"])["state"] == 2
