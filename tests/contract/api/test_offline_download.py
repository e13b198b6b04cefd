"""Offline downloads over HTTP: what may be asked for, by whom, and how tasks are shown."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests import servers
from tests.contract.api import accounts, fixtures
from tests.contract.api.accounts import get_refusal
from tests.contract.api.offline_download_client import KIND, ROUTE, TRANSFER, ask, download_files, list_done
from tests.contract.api.task_client import OFFLINE_DOWNLOAD, TaskClient, read_files, wait_until
from tests.support import origin
from tests.support.origin import Origin
from tests.support.service import Client

pytestmark = pytest.mark.usefixtures("allow_loopback")

DENIED = (403, "permission denied")
CREATED = {"id", "name", "state", "status", "progress", "error"}
FIELDS = CREATED | {"creator", "creator_role", "start_time", "end_time", "total_bytes"}


def test_a_download_becomes_a_task_and_a_transfer_in_both_dialects(owner: TaskClient, web: Origin) -> None:
    url = web.at("/hello.txt", origin.file(b"hello"))
    username = owner.client.get("/api/me")["data"]["username"]
    for prefix, fields in (("", CREATED), ("/openlist", FIELDS)):
        body = {"urls": [url], "path": f"{owner.folder}/new/deep", "tool": "SimpleHttp"}
        (made,) = owner.client.ok(f"{prefix}{ROUTE}", **body)["tasks"]
        assert set(made) == fields
        first = {"name": f"download {url} to ({owner.folder}/new/deep)", "state": 0, "status": "", "progress": 0}
        assert made | first | {"error": ""} == made
        shown = owner.wait_for(KIND, made["id"])
        last = first | {"state": 2, "progress": 100, "creator": username, "creator_role": 0, "total_bytes": 5}
        assert shown | last | {"error": ""} == shown
        (native,) = owner.client.ok(f"/api/task/{KIND}/info", params={"tid": made["id"]})
        assert native == native | shown | {"state": "succeeded"}
    inner = owner.folder.removeprefix("/files")
    for row in owner.wait_for_all(TRANSFER):
        assert row["name"] == f"transfer [](/hello.txt) to [/files]({inner}/new/deep)"
        assert (row["state"], row["error"], row["total_bytes"], row["creator"]) == (2, "", 5, username)
    assert read_files(owner.disk) == {"new/deep/hello.txt": b"hello"}


def test_several_addresses_are_several_tasks_and_blank_ones_none(owner: TaskClient, web: Origin) -> None:
    urls = [web.at(f"/{name}", origin.file(name.encode())) for name in ("one", "two", "three")]
    made = owner.download("", f"  {urls[0]}\t", "  ", *urls[1:], "\n")
    assert len(made) == 3
    assert {owner.wait_for(KIND, id)["state"] for id in made} == {2}
    assert {row["state"] for row in owner.wait_for_all(TRANSFER)} == {2}
    assert read_files(owner.disk) == {"one": b"one", "two": b"two", "three": b"three"}
    assert owner.download() == owner.download(" ", "") == []


def test_one_address_that_fails_does_not_keep_the_others_back(owner: TaskClient, web: Origin) -> None:
    there, gone = web.at("/there.txt", origin.file(b"there")), web.at("/gone", origin.status(404))
    made = owner.download(gone, there)
    assert [owner.wait_for(KIND, id)["error"] for id in made] == ["http status code 404", ""]
    assert {row["state"] for row in owner.wait_for_all(TRANSFER)} == {2}
    assert read_files(owner.disk) == {"there.txt": b"there"}


NAMES = [
    ("/a/plain.bin?name=other.bin", "", "plain.bin"),
    ("/r%C3%A9sum%C3%A9%20%231.txt", "", "résumé #1.txt"),
    ("/get", 'attachment; filename="given name.pdf"', "given name.pdf"),
    ("/get", "attachment; filename=plain.txt; filename*=UTF-8''%e2%82%ac.txt", "€.txt"),
    ("/get", 'attachment; filename="../../../etc/passwd"', "passwd"),
    ("/get", 'attachment; filename="..\\\\..\\\\evil.exe"', "evil.exe"),
    ("/get.bin", 'attachment; filename=".."', "get.bin"),
    ("/x/%2e%2e%2f%2e%2e%2fetc%2fshadow", "", "shadow"),
    ("/.mangrove-x.part", "", "mangrove-x.part"),
    ("/nul%00byte.txt", "", "nulbyte.txt"),
    ("/line%0abreak.txt", "", "linebreak.txt"),
    ("/" + "n" * 300 + ".txt", "", "n" * 251 + ".txt"),
]  # path, Content-Disposition, and the name that the file gets


def test_the_name_is_the_servers_or_the_addresses_and_harmless(owner: TaskClient, web: Origin) -> None:
    inner = owner.folder.removeprefix("/files")
    expected = {}
    for number, (path, disposition, name) in enumerate(NAMES):
        page = origin.file(b"x", content_disposition=disposition)
        web.at(f"/{number}{path.partition('?')[0]}", page)
        owner.download(f"{web.address}/{number}{path}", path=f"{owner.folder}/{number}")
        expected[f"{number}/{name}"] = b"x"
    assert {row["error"] for row in owner.wait_for_all(KIND) + owner.wait_for_all(TRANSFER)} == {""}
    assert read_files(owner.disk) == expected
    shown = {row["name"] for row in owner.wait_for_all(TRANSFER)}
    names = [name for *_, name in NAMES]
    assert shown == {f"transfer [](/{name}) to [/files]({inner}/{n})" for n, name in enumerate(names)}


def test_an_address_without_a_name_gets_one_of_its_host(owner: TaskClient, web: Origin) -> None:
    (name,) = download_files(owner, web.at("/", origin.file(b"x")))
    assert name.startswith("127.0.0.1-")


def test_an_empty_file_and_one_of_unknown_length_arrive(owner: TaskClient, web: Origin) -> None:
    chunked = origin.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n2\r\n !\r\n0\r\n\r\n")
    until_closed = origin.raw(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")
    made = owner.download(
        web.at("/empty", origin.file(b"")), web.at("/chunked", chunked), web.at("/closed", until_closed)
    )
    assert [owner.wait_for(KIND, id)["error"] for id in made] == ["", "", ""]
    assert {row["state"] for row in owner.wait_for_all(TRANSFER)} == {2}
    assert read_files(owner.disk) == {"empty": b"", "chunked": b"hello !", "closed": b"until the end"}


def test_an_unknown_tool_is_refused_by_name(owner: TaskClient) -> None:
    message = "failed get offline download tool: tool {} not found"
    for tool in ("", "simplehttp", "Transmission", "x" * 99):
        answer = ask(owner.client, "http://example.org/f", owner.folder, tool=tool)
        assert get_refusal(answer) == (500, message.format(tool))


@pytest.mark.parametrize("tool", ["aria2", "qBittorrent"])
def test_a_tool_that_does_not_answer_is_refused_by_name(owner: TaskClient, admin: Client, tool: str) -> None:
    dead = f"http://127.0.0.1:{servers.free_port()}"
    how = {"aria2_uri": f"{dead}/jsonrpc", "qbittorrent_url": f"http://me:hush@{dead[7:]}/"}
    with fixtures.settings(admin, **how, offline_download_ready=tool):
        code, message = get_refusal(ask(owner.client, "http://example.org/f", owner.folder, tool=tool))
    assert (code, message.startswith(f"failed init offline download tool {tool}: ")) == (500, True)
    assert "hush" not in message
    assert owner.wait_for_all(KIND) == []


@pytest.mark.parametrize("url", ["ftp://example.org/f", "magnet:?xt=urn:btih:x", "ed2k://|file|f|1|x|/", "file:///etc"])
def test_simple_http_takes_http_only(owner: TaskClient, url: str) -> None:
    message = "SimpleHttp tool does not support this URL scheme, please use aria2 or other tools for magnet/ed2k links"
    assert get_refusal(ask(owner.client, url, owner.folder)) == (500, message)


@pytest.mark.parametrize("tool", ["aria2", "qBittorrent"])
def test_no_tool_takes_ed2k(owner: TaskClient, tool: str) -> None:
    message = (
        f"ed2k protocol is not supported by {tool}. "
        "Please configure and use Thunder/ThunderX/ThunderBrowser for ed2k links"
    )
    assert get_refusal(ask(owner.client, "ed2k://|file|f|1|x|/", owner.folder, tool=tool)) == (500, message)


def test_an_address_with_a_password_is_refused_and_not_repeated(owner: TaskClient, web: Origin) -> None:
    url = web.address.replace("//", "//user:sesame@")
    code, message = get_refusal(ask(owner.client, url, owner.folder))
    assert (code, "sesame" in message) == (500, False)
    first = web.at("/first", origin.file(b"x"))
    assert get_refusal(owner.client.post(ROUTE, urls=[first, url], path=owner.folder, tool="SimpleHttp"))[0] == 500
    assert owner.wait_for_all(KIND) == []


def test_a_body_of_the_wrong_kind_is_refused(owner: TaskClient) -> None:
    bodies: list[dict[str, Any]] = [{"urls": "http://x/"}, {"urls": [1]}, {"urls": {"a": 1}}, {"path": 1}, {"tool": []}]
    for body in bodies:
        fields = {"urls": ["http://example.org/f"], "path": owner.folder, "tool": "SimpleHttp"} | body
        assert get_refusal(owner.client.post(ROUTE, **fields))[0] == 400
    assert owner.wait_for_all(KIND) == []


def test_many_addresses_in_one_request_are_refused_as_a_whole(owner: TaskClient) -> None:
    urls = ["http://example.org/f"] * 100_000
    assert get_refusal(owner.client.post(ROUTE, urls=urls, path=owner.folder, tool="SimpleHttp"))[0] == 400
    assert owner.wait_for_all(KIND) == []


def test_a_target_that_takes_nothing_is_refused(owner: TaskClient, admin: Client) -> None:
    url = "http://example.org/f"
    nowhere = (500, fixtures.NOT_MOUNTED)
    assert get_refusal(ask(owner.client, url, "/no/such/place")) == nowhere
    (owner.disk / "file").write_text("x")
    assert get_refusal(ask(owner.client, url, f"{owner.folder}/file")) == (500, "this is not a folder")
    assert get_refusal(ask(owner.client, url, f"{owner.folder}/../up"))[0] == 403
    with fixtures.mount(admin, "UrlTree", addition={"url_structure": "f:http://example.org/"}) as path:
        assert get_refusal(ask(owner.client, url, path, tool="aria2")) == (500, "upload not supported")
    assert owner.wait_for_all(KIND) == []


def test_the_right_to_download_and_the_rules_of_the_target_decide(
    owner: TaskClient, admin: Client, web: Origin
) -> None:
    url = web.at("/f", origin.file(b"x"))
    with fixtures.user(owner.service, admin, fixtures.ALL_RIGHTS & ~OFFLINE_DOWNLOAD) as without:
        assert get_refusal(ask(without, url, owner.folder)) == DENIED
    with fixtures.user(owner.service, admin, OFFLINE_DOWNLOAD) as with_it:
        made = with_it.ok(f"/openlist{ROUTE}", urls=[url], path=owner.folder, tool="SimpleHttp")["tasks"]
        assert len(made) == 1
        wait_until(lambda: (owner.disk / "f").exists())
        with fixtures.meta(admin, owner.folder, write_users=[1], write_users_sub=True):
            assert get_refusal(ask(with_it, url, owner.folder)) == DENIED
            assert get_refusal(ask(with_it, url, f"{owner.folder}/below")) == DENIED
        wait_until(lambda: not with_it.get(f"/openlist/api/task/{TRANSFER}/undone")["data"])
        for kind in (KIND, TRANSFER):
            with_it.ok(f"/api/task/{kind}/clear_done")
    with fixtures.user(owner.service, admin, OFFLINE_DOWNLOAD, f"{owner.folder}/home") as confined:
        (made,) = confined.ok(f"/openlist{ROUTE}", urls=[url], path="/in", tool="SimpleHttp")["tasks"]
        assert made["name"] == f"download {url} to ({owner.folder}/home/in)"
        wait_until(lambda: (owner.disk / "home/in/f").exists())
        wait_until(lambda: not confined.get(f"/openlist/api/task/{TRANSFER}/undone")["data"])
        for kind in (KIND, TRANSFER):
            confined.ok(f"/api/task/{kind}/clear_done")


def list_guest_tasks(admin: Client, kind: str) -> list[dict[str, Any]]:
    """Those of the guest that are done."""
    return [row for row in list_done(admin, kind) if row["creator"] == "guest"]


def test_the_guest_downloads_only_where_he_may(owner: TaskClient, admin: Client, web: Origin) -> None:
    url = web.at("/guest.txt", origin.file(b"x"))
    assert get_refusal(ask(owner.service.anonymous(), url, owner.folder)) == accounts.GUEST_DISABLED
    with accounts.guest(admin, permission=0) as guest:
        assert get_refusal(ask(guest, url, owner.folder)) == DENIED
    with accounts.guest(admin, permission=OFFLINE_DOWNLOAD) as guest:
        (made,) = guest.ok(f"/openlist{ROUTE}", urls=[url], path=owner.folder, tool="SimpleHttp")["tasks"]
        assert (made["creator"], made["creator_role"]) == ("guest", 1)
        wait_until(lambda: (owner.disk / "guest.txt").exists())
    for kind in (KIND, TRANSFER):
        (row,) = wait_until(partial(list_guest_tasks, admin, kind))
        admin.ok(f"/api/task/{kind}/delete", params={"tid": row["id"]})
