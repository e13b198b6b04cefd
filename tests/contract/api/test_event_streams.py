"""Server-sent events over HTTP: what they report, to whom, and when they end."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from mangrove.core.limits import EVENT_STREAMS_PER_CALLER
from tests.contract.api import fixtures
from tests.contract.api.event_client import CLOSED, follow
from tests.contract.api.transfer_client import send
from tests.support.service import Client, Service, run_forked


def test_change_of_a_folder_is_reported_to_its_watchers(admin: Client, folder: str) -> None:
    fixtures.fill(admin, folder, "sub/")
    with follow(admin, folder) as events, follow(admin, f"{folder}/sub") as events_below:
        admin.put(f"{folder}/a.txt", b"x")
        assert events.wait_for("folder") == {"path": folder}
        admin.put(f"{folder}/sub/b.txt", b"x")
        assert events_below.wait_for("folder") == {"path": f"{folder}/sub"}
        admin.ok("/api/fs/remove", dir=folder, names=["sub"])
        assert events_below.wait_for("folder") == {"path": f"{folder}/sub"}


def test_change_behind_an_alias_is_reported(admin: Client, folder: str) -> None:
    with fixtures.mount(admin, "Alias", addition={"paths": folder}) as alias, follow(admin, alias) as events:
        admin.ok("/api/fs/list", path=alias)
        admin.put(f"{folder}/a.txt", b"x")
        assert events.wait_for("folder") == {"path": alias}


def test_new_mount_is_reported_to_watchers_of_its_parent(admin: Client, tmp_path: Path) -> None:
    with follow(admin, "/") as events, fixtures.local(admin, tmp_path):
        assert events.wait_for("folder") == {"path": "/"}


def test_tasks_are_reported_to_their_owner_only(service: Service, admin: Client, folder: str) -> None:
    with (
        fixtures.user(service, admin, fixtures.ALL_RIGHTS) as owner,
        fixtures.user(service, admin, fixtures.ALL_RIGHTS) as other,
        follow(owner, folder) as events,
        follow(other, "/") as events_of_other,
        fixtures.settings(admin, upload_task_threads_num="0"),
    ):
        id = send(owner, "put", f"{folder}/{uuid4().hex}", b"content")["data"]["task"]["id"]
        data = events.wait_for("tasks")
        assert (data["kind"], [row["id"] for row in data["tasks"]], data["ended"]) == ("upload", [id], [])
        assert set(data["tasks"][0]) == set(owner.get("/api/task/upload/undone")["data"][0])
        owner.ok("/api/task/upload/cancel", params={"tid": id})
        while id not in data["ended"]:
            data = events.wait_for("tasks")
        assert events_of_other.is_silent()


def test_states_of_storages_are_reported_to_administrators(
    service: Service, admin: Client, someone: object, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with (
        fixtures.local(admin, root) as mount,
        fixtures.user(service, admin, fixtures.ALL_RIGHTS) as member,
        follow(member, "/") as events_of_member,
        follow(admin, "/") as events,
    ):
        root.rename(tmp_path / "gone")
        admin.ok("/api/admin/storage/load_all")
        states: dict[str, str] = {}
        while states.get(mount, "work") == "work":
            states |= {row["mount_path"]: row["status"] for row in events.wait_for("storages")["storages"]}
        assert "not exists" in states[mount]
        assert events_of_member.is_silent()


def test_stream_ends_with_the_session(service: Service) -> None:
    client = service.client()
    with follow(client, "/") as events:
        client.get("/api/auth/logout")
        assert events.wait_for("end")["code"] == 401
        assert events.wait_for(CLOSED) is None


def test_stream_ends_with_the_account(service: Service, admin: Client) -> None:
    with ExitStack() as stack:
        with fixtures.user(service, admin, fixtures.ALL_RIGHTS) as member:
            events = stack.enter_context(follow(member, "/"))
        assert events.wait_for("end")["code"] == 401


def test_stream_ends_when_a_rule_protects_the_folder(service: Service, admin: Client, folder: str) -> None:
    with fixtures.user(service, admin, 0) as member, follow(member, folder) as events:
        with fixtures.meta(admin, folder, password="secret", p_sub=True):
            assert events.wait_for("end")["code"] == 403
            refused = member.get("/api/events", path=folder)
            assert refused["code"] == 403
            with follow(member, folder, password="secret") as allowed:
                admin.put(f"{folder}/a.txt", b"x")
                assert allowed.wait_for("folder") == {"path": folder}


@pytest.mark.parametrize("path", ["", "/../etc", "/a/../../b", "/files/../..", "\\..\\x", "a" * 5000, "/@s/x", "/\x00"])
def test_watched_path_is_confined(service: Service, admin: Client, folder: str, path: str) -> None:
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS, base_path=folder) as member:
        answer = member.http.get("/api/events", params={"path": path}).json()
        assert answer["code"] in (400, 403, 404, 500), answer


def test_stream_without_a_session_is_refused(visitor: Client) -> None:
    assert visitor.get("/api/events", path="/")["code"] == 401


def test_streams_of_a_caller_are_limited(service: Service, admin: Client) -> None:
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS) as member, ExitStack() as stack:
        for _ in range(EVENT_STREAMS_PER_CALLER):
            stack.enter_context(follow(member, "/"))
        assert member.get("/api/events", path="/")["code"] == 429
        with follow(admin, "/"):
            pass
        stack.close()
        with follow(member, "/"):
            pass


def test_client_that_leaves_frees_its_stream(service: Service, admin: Client) -> None:
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS) as member:
        for _ in range(3 * EVENT_STREAMS_PER_CALLER):
            with follow(member, "/"):
                pass


def test_service_with_streams_stops_at_once(tmp_path: Path) -> None:
    with run_forked(tmp_path / "data", MANGROVE_PAGE="none", MANGROVE_PROCESSES="2") as service:
        client = service.client()
        with follow(client, "/") as events, follow(client, "/files"):
            service.stop()
            events.wait_for(CLOSED)


def test_changes_of_another_process_are_reported(tmp_path: Path) -> None:
    with (
        run_forked(tmp_path / "data", MANGROVE_PAGE="none", MANGROVE_PROCESSES="2") as service,
        ExitStack() as stack,
    ):
        client = service.client()
        streams = [stack.enter_context(follow(client, "/files")) for _ in range(6)]  # on both processes
        for number in range(3):
            client.put(f"/files/{number}.txt", b"x")
            for events in streams:
                assert events.wait_for("folder") == {"path": "/files"}
