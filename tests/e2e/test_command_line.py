"""The commands that work through the API, in front of a running service and on a data directory alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from uuid import uuid4

import pytest

from mangrove.client import transfers
from tests import servers
from tests.contract.api import fixtures
from tests.e2e.command_line import CommandLine, read_tree, run_alone
from tests.servers.object_store import object_store
from tests.support.service import ADMIN_PASSWORD, Client, Service, run_service
from tests.support.waiting import wait_until

REMOVAL_MILLISECONDS = 2100.0  # of one folder; at this pace twelve take longer than a request may


@pytest.fixture
def shell(
    service: Service, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> CommandLine:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return CommandLine(service.address, service.client().token, capsys, monkeypatch)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with two files, one of them in chunks, a folder, an empty folder and a link."""
    source = tmp_path / "source"
    (source / "below" / "deep").mkdir(parents=True)
    (source / "empty").mkdir()
    (source / "a.txt").write_text("a")
    (source / "below" / "deep" / "large.bin").write_bytes(os.urandom(transfers.MAX_SINGLE_BYTES + 17))
    (source / "link").symlink_to("a.txt")
    return source


def test_folder_is_uploaded_listed_and_downloaded(
    shell: CommandLine, folder: str, source: Path, tmp_path: Path
) -> None:
    summary = shell.json("put", "-r", str(source), folder)
    assert (summary["files"], summary["skipped"], summary["failed"]) == (2, 0, [])
    rows = shell.json("ls", "-r", folder)
    assert {row["path"].removeprefix(folder) for row in rows} == {
        "/source", "/source/a.txt", "/source/below", "/source/below/deep", "/source/below/deep/large.bin",
        "/source/empty",
    }  # fmt: skip
    assert "a.txt" in shell.ok("ls", f"{folder}/source")
    assert shell.json("get", "-r", f"{folder}/source", str(tmp_path / "copy"))["files"] == 2
    expected = {name: content for name, content in read_tree(source).items() if name != "link"}
    assert read_tree(tmp_path / "copy") == expected
    assert (tmp_path / "copy" / "empty").is_dir()


def test_unchanged_files_are_not_transferred_again(
    shell: CommandLine, folder: str, source: Path, tmp_path: Path
) -> None:
    target = tmp_path / "copy"
    assert shell.json("put", "-r", str(source), f"{folder}/copy")["files"] == 2
    assert shell.json("put", "-r", *map(str, source.glob("[ab]*")), f"{folder}/copy")["skipped"] == 2
    assert shell.json("get", "-r", f"{folder}/copy", str(target))["files"] == 2
    assert shell.json("get", "-r", f"{folder}/copy/*", str(target))["skipped"] == 2
    (target / "a.txt").write_text("b")
    os.utime(target / "a.txt", (1, 1))
    assert shell.json("get", "-r", f"{folder}/copy/*", str(target))["files"] == 1
    assert (target / "a.txt").read_text() == "a"


def test_interrupted_download_continues_where_it_stopped(
    shell: CommandLine, folder: str, admin: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = os.urandom(3 << 20)
    admin.put(f"{folder}/a.bin", content)
    read: list[int] = []
    iterate = transfers.iter_blocks

    def stop_after_two_blocks(*arguments: object, **options: object) -> object:
        for number, block in enumerate(iterate(*arguments, **options)):  # type: ignore[arg-type]
            if number == 2 and not read:
                read.append(number)
                raise OSError("interrupted")
            yield block

    monkeypatch.setattr(transfers, "iter_blocks", stop_after_two_blocks)
    status, _, errors = shell.run("get", f"{folder}/a.bin", str(tmp_path / "a.bin"))
    assert status == 6 and "interrupted" in errors
    (part,) = tmp_path.glob(".mangrove-*.part")
    assert part.read_bytes() == content[: part.stat().st_size] and part.stat().st_size == 2 * transfers.BLOCK_BYTES
    shell.ok("get", f"{folder}/a.bin", str(tmp_path / "a.bin"))
    assert (tmp_path / "a.bin").read_bytes() == content
    assert not list(tmp_path.glob(".mangrove-*"))


def test_interrupted_upload_sends_the_missing_chunks_only(
    shell: CommandLine, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.bin").write_bytes(content := os.urandom(5 << 20))
    monkeypatch.setattr(transfers, "CHUNK_BYTES", 1 << 20)
    sent: list[int] = []
    send = transfers.send_chunk

    def send_until_interrupted(client: object, snapshot: object, index: int, content: bytes) -> None:
        if len(sent) == 2:
            sent.append(-1)
            raise OSError("interrupted")
        sent.append(index)
        send(client, snapshot, index, content)  # type: ignore[arg-type]

    monkeypatch.setattr(transfers, "send_chunk", send_until_interrupted)
    assert shell.run("put", str(tmp_path / "a.bin"), f"{folder}/a.bin")[0] == 6
    assert shell.json("put", str(tmp_path / "a.bin"), f"{folder}/a.bin")["files"] == 1
    assert sent == [0, 1, -1, 2, 3, 4]
    shell.ok("get", f"{folder}/a.bin", str(tmp_path / "b.bin"))
    assert (tmp_path / "b.bin").read_bytes() == content


def test_standard_input_and_output_are_files(service: Service, folder: str) -> None:
    environment = {"MANGROVE_URL": service.address, "MANGROVE_TOKEN": service.client().token}
    content = os.urandom(5_000_000)
    done = run_alone("put", "--json", "-", f"{folder}/from pipe", typed=content, **environment)
    assert json.loads(done.stdout)["bytes"] == len(content), done.stderr
    assert run_alone("get", f"{folder}/from pipe", "-", **environment).stdout == content


def test_entries_are_copied_moved_renamed_and_removed(shell: CommandLine, folder: str, admin: Client) -> None:
    for name in ("a.txt", "b.txt", "c.log"):
        admin.put(f"{folder}/{name}", b"content")
    shell.ok("mkdir", f"{folder}/x/y")
    shell.ok("cp", f"{folder}/*.txt", f"{folder}/x")
    shell.ok("cp", f"{folder}/a.txt", f"{folder}/copy of a.txt")
    shell.ok("mv", f"{folder}/c.log", f"{folder}/x/y/d.log")
    shell.ok("mv", f"{folder}/x/b.txt", f"{folder}/x/renamed.txt")
    assert admin.names(f"{folder}/x") == ["a.txt", "renamed.txt", "y"]
    assert admin.names(f"{folder}/x/y") == ["d.log"]
    assert admin.names(folder) == ["a.txt", "b.txt", "copy of a.txt", "x"]
    status, line = shell.refuse("cp", f"{folder}/b.txt", f"{folder}/a.txt")
    assert status == 1 and "--force" in line
    status, line = shell.refuse("rm", f"{folder}/x")
    assert status == 1 and "--recursive" in line
    shell.ok("rm", "-r", f"{folder}/x", f"{folder}/[ab].txt")
    assert admin.names(folder) == ["copy of a.txt"]


def test_folders_that_a_task_still_removes_are_named(shell: CommandLine, admin: Client) -> None:
    names = [f"d{number:02}" for number in range(12)]
    with object_store(POST=REMOVAL_MILLISECONDS) as endpoint:
        bucket, store = servers.make_bucket(endpoint), servers.make_client("s3", endpoint)
        for name in names:
            store.put_object(Bucket=bucket, Key=f"{name}/file", Body=b"x")
        with fixtures.mount(admin, "S3", addition=servers.s3_options(endpoint, bucket)) as path:
            paths = [f"{path}/{name}" for name in names]
            result = shell.json("rm", "-r", *paths)
            assert result["unfinished"] and sorted(result["removed"] + result["unfinished"]) == paths
            assert shell.ok("ls", path)
            for task in admin.get("/api/task/move/undone")["data"]:
                shell.ok("task", "cancel", task["id"])


def test_patterns_match_within_a_name_unless_literal(shell: CommandLine, folder: str, admin: Client) -> None:
    for name in ("a[1].txt", "a1.txt", ".hidden"):
        admin.put(f"{folder}/{name}", b"content")
    listed = [row["name"] for row in shell.json("ls", f"{folder}/a[1].txt")]
    assert listed == ["a1.txt"]
    assert [row["name"] for row in shell.json("ls", "--literal", f"{folder}/a[1].txt")] == ["a[1].txt"]
    assert len(shell.json("ls", f"{folder}/*")) == 2
    assert shell.refuse("ls", f"{folder}/*.jpg") == (3, f"{folder}/*.jpg matches nothing")


def test_users_are_created_disabled_and_deleted(shell: CommandLine, service: Service) -> None:
    name = uuid4().hex
    shell.ok("user", "add", name, "--base-path", "/files", "--right", "write", "--right", "copy", typed="secret\n")
    row = next(row for row in shell.json("user", "list") if row["username"] == name)
    assert (row["base_path"], row["rights"], row["disabled"]) == ("/files", ["write", "copy"], False)
    assert service.client(name, "secret").get("/api/me")["code"] == 200
    changed = shell.json("user", "password", name, typed="\n")
    assert service.client(name, changed["password"]).get("/api/me")["code"] == 200
    shell.ok("user", "disable", name)
    assert service.client(name, changed["password"]).get("/api/me")["code"] == 401
    shell.ok("user", "enable", name)
    shell.ok("user", "delete", name)
    assert shell.refuse("user", "disable", name) == (3, f"there is no user {name}")


def test_storage_is_mounted_tested_and_deleted(shell: CommandLine, tmp_path: Path) -> None:
    mount = f"/{uuid4().hex}"
    (tmp_path / "disk").mkdir()
    option = f"root_folder_path={tmp_path / 'disk'}"
    row = shell.json("storage", "add", mount, "Local", "--option", option, "--option", "show_hidden=true")
    assert (row["status"], json.loads(row["addition"])["show_hidden"]) == ("work", True)
    (result,) = shell.json("storage", "test", mount)
    assert result["ok"] and result["result"] == "ok"
    shell.ok("storage", "reload")
    (tmp_path / "disk").rmdir()
    status, printed, _ = shell.run("storage", "test", mount, "--json")
    assert status == 1 and not json.loads(printed)[0]["ok"]
    status, line = shell.refuse("storage", "add", mount, "Local", "--option", "no_such=1")
    assert status == 1 and "not an option of Local" in line
    shell.ok("storage", "delete", mount)
    assert mount not in [row["mount_path"] for row in shell.json("storage", "list")]


def test_settings_are_read_and_changed_together(shell: CommandLine) -> None:
    title = shell.ok("settings", "get", "site_title").rstrip("\n")
    shell.ok("settings", "set", "site_title=Command line", "announcement", typed="typed text\n")
    rows = {row["key"]: row["value"] for row in shell.json("settings", "get", "site_title", "announcement")}
    assert rows == {"site_title": "Command line", "announcement": "typed text"}
    assert shell.refuse("settings", "set", "site_title=x", "no_such=1")[0] == 3
    assert shell.ok("settings", "get", "site_title") == "Command line\n"
    shell.ok("settings", "set", f"site_title={title}", "announcement=")


def test_tasks_are_listed_waited_for_and_cancelled(shell: CommandLine, folder: str, admin: Client) -> None:
    admin.put(f"{folder}/a.txt", b"content")
    task = admin.put(f"{folder}/b.txt", b"content", as_task="true")["data"]["task"]["id"]
    (row,) = shell.json("task", "wait", task)
    assert row["state"] == "succeeded"
    assert task in [row["id"] for row in shell.json("task", "list", "--done", "--kind", "upload")]
    assert shell.refuse("task", "wait", "no-such-task") == (3, "there is no task no-such-task")
    assert shell.run("task", "cancel", task)[0] in (0, 1)


def test_share_link_and_token_are_created_and_deleted(shell: CommandLine, folder: str, admin: Client) -> None:
    admin.put(f"{folder}/a.txt", b"content")
    share = shell.json("share", "create", folder, "--max-visits", "3", "--password", typed="guess\n")
    assert share["address"] == f"{shell.address}/@s/{share['id']}" and share["max_accessed"] == 3
    assert share["id"] in [row["id"] for row in shell.json("share", "list")]
    shell.ok("share", "delete", share["id"])
    token = shell.json("token", "create", uuid4().hex, "--folder", folder, "--mode", "read")
    limited = CommandLine(shell.address, token["token"], shell.capture, shell.patch)
    assert [row["name"] for row in limited.json("ls", "/")] == ["a.txt"]
    assert limited.refuse("rm", "/a.txt")[0] == 4
    shell.ok("token", "delete", str(token["id"]))
    assert limited.refuse("ls", "/")[0] == 4


def test_names_are_found_after_the_index_is_built(shell: CommandLine, folder: str, admin: Client) -> None:
    name = uuid4().hex
    admin.put(f"{folder}/{name}.txt", b"content")
    wait_until(lambda: shell.json("index", "status")["is_done"])  # of what other tests have changed
    shell.ok("index", "build", "--quiet")
    wait_until(lambda: shell.json("index", "status")["is_done"])
    assert [row["path"] for row in shell.json("search", name, "--folder", folder)] == [f"{folder}/{name}.txt"]
    assert shell.json("search", name, "--type", "folders") == []


def test_login_stores_a_token_that_only_its_owner_reads(shell: CommandLine, tmp_path: Path) -> None:
    shell.token = ""
    file = tmp_path / "config" / "mangrove" / "tokens.json"
    assert shell.refuse("login", typed="wrong\n")[0] in (1, 4) and not file.exists()
    shell.ok("login", typed=f"{ADMIN_PASSWORD}\n")
    assert file.stat().st_mode & 0o777 == 0o600
    assert [row["username"] for row in shell.json("user", "list")].count("admin") == 1
    file.chmod(0o644)
    assert "chmod 600" in shell.refuse("user", "list")[1]
    file.chmod(0o600)
    shell.ok("logout")
    assert json.loads(file.read_text()) == {}
    assert shell.refuse("user", "list")[0] == 4


def test_dead_address_and_other_servers_are_named(shell: CommandLine) -> None:
    shell.address = "http://127.0.0.1:9"
    status, line = shell.refuse("ls")
    assert status == 5 and "http://127.0.0.1:9 does not answer" in line
    shell.address = "files.example.org"
    assert "is not an address" in shell.refuse("ls")[1]


def test_control_characters_of_names_do_not_reach_the_terminal(
    shell: CommandLine, folder: str, service: Service
) -> None:
    (service.data / folder.removeprefix("/") / "a\x1b[31m.txt").write_text("red")
    printed = shell.ok("ls", "--refresh", folder)
    assert "\x1b" not in printed and "a\N{REPLACEMENT CHARACTER}[31m.txt" in printed


def test_commands_work_on_a_data_directory_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert run_alone("ls", "--data", str(data)).returncode == 1 and not data.exists()
    with run_service(data) as service:
        service.client().put("/files/a.txt", b"content")
        listed = run_alone("ls", "/files", "--json", "--data", str(data))  # beside the service
        assert [row["name"] for row in json.loads(listed.stdout)] == ["a.txt"], listed.stderr
        service.stop()
    (tmp_path / "b.txt").write_text("b")
    put = run_alone("put", str(tmp_path / "b.txt"), "/files", "--data", str(data))
    assert put.returncode == 0, put.stderr
    assert (data / "files" / "b.txt").read_text() == "b"
    users = json.loads(run_alone("user", "list", "--json", "--data", str(data)).stdout)
    assert {row["username"] for row in users} == {"admin", "guest"}


def test_doctor_reports_each_check_and_a_missing_key(tmp_path: Path) -> None:
    done = run_alone("doctor", "--json", "--port", "0", "--data", str(tmp_path / "new"))
    findings = {row["check"]: row for row in json.loads(done.stdout)}
    assert set(findings) >= {"Python", "engine", "namespace", "file system", "space", "disk", "clock", "port", "page"}
    assert findings["engine"]["ok"] and findings["file system"]["ok"] and findings["port"]["ok"]
    assert done.returncode == (0 if all(row["ok"] for row in findings.values()) else 1)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "records.db").write_bytes(b"")
    done = run_alone("doctor", "--port", "0", "--data", str(tmp_path / "broken"))
    assert done.returncode == 1 and b"warning  data:" in done.stdout and b"the key is missing" in done.stdout


@pytest.mark.parametrize("shell_name", ["bash", "zsh"])
def test_completion_names_the_commands(shell_name: str) -> None:
    done = run_alone("completion", shell_name)
    assert done.returncode == 0 and b"storage" in done.stdout and b"mangrove" in done.stdout
