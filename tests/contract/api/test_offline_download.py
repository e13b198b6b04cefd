"""Offline downloads over HTTP: what may be asked for, what arrives, and what is left when it does not."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import origin, servers
from tests.contract.api import accounts, fixtures
from tests.contract.api.accounts import refusal
from tests.contract.api.task_client import OFFLINE_DOWNLOAD, Desk, files, task_client, until
from tests.origin import Answering, Origin, Request
from tests.service import Client, Service, run_service

KIND, TRANSFER = "offline_download", "offline_download_transfer"
ROUTE = "/api/fs/add_offline_download"
DENIED = (403, "permission denied")
MIB = 1 << 20
PART = 16 * MIB
LARGE = os.urandom(1 << 20) * 40
CUT = 36 * MIB  # bytes of LARGE: two parts, and some of the third
CREATED = {"id", "name", "state", "status", "progress", "error"}
FIELDS = CREATED | {"creator", "creator_role", "start_time", "end_time", "total_bytes"}


@pytest.fixture(scope="module")
def web() -> Iterator[Origin]:
    with origin.origin() as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def open_door(admin: Client) -> Iterator[None]:
    """Downloads may reach this machine."""
    with fixtures.settings(admin, offline_download_allowed_hosts="127.0.0.1", offline_download_task_threads_num="20"):
        yield


@pytest.fixture
def place(service: Service, admin: Client, tmp_path: Path) -> Iterator[Desk]:
    with task_client(service, admin, tmp_path / "other") as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def unlucky(service: Service, admin: Client, web: Origin, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Downloads that are tried again and again, begun with the first test and looked at by the last."""
    with task_client(service, admin, tmp_path_factory.mktemp("unlucky") / "other") as made:
        short = web.at("/short", origin.file(b"x" * 100, cut=50))
        closed = f"http://127.0.0.1:{servers.free_port()}/closed"
        made.download(short, closed)
        yield made


class Halting:
    """A page that sends `content` up to `at` and then no more until it is told to `go`; with ranges and an ETag."""

    def __init__(self, content: bytes, at: int, etag: str = '"first"') -> None:
        self.content = content
        self.at = at
        self.etag = etag
        self.halted = threading.Event()
        self.go = threading.Event()
        self.begun: list[int] = []  # the offset of each request

    def __call__(self, request: Request) -> None:
        told = request.headers.get("range", "")
        same = request.headers.get("if-range") == self.etag
        start = int(told.removeprefix("bytes=").removesuffix("-")) if told and same else 0
        self.begun.append(start)
        size = len(self.content)
        head: dict[str, str | int] = {"etag": self.etag, "accept-ranges": "bytes", "content-length": size - start}
        if start:
            head["content-range"] = f"bytes {start}-{size - 1}/{size}"
        request.head(206 if start else 200, head)
        request.wfile.write(self.content[start : self.at])
        self.halted.set()
        assert self.go.wait(30)
        request.wfile.write(self.content[max(start, self.at) :])


def in_turn(*pages: Answering) -> Answering:
    """One page after the other, the last one for ever."""
    left = list(pages)
    return lambda request: (left.pop(0) if len(left) > 1 else left[0])(request)


def done(client: Client, kind: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = client.get(f"/openlist/api/task/{kind}/done")["data"]
    return rows


def ask(client: Client, url: str, path: str, **more: Any) -> dict[str, Any]:
    return client.post(ROUTE, **({"urls": [url], "path": path, "tool": "SimpleHttp"} | more))


def brought(place: Desk, url: str, **more: str) -> dict[str, bytes]:
    """The files in the folder when a download has succeeded."""
    (id,) = place.download(url, **more)
    row = place.ended(KIND, id)
    assert (row["state"], row["error"]) == (2, "")
    assert [(one["state"], one["error"]) for one in place.all(TRANSFER)] == [(2, "")]
    return files(place.disk)


def failed(place: Desk, url: str, **more: str) -> str:
    """The error of a download that has failed and left nothing."""
    (id,) = place.download(url, **more)
    row = place.ended(KIND, id)
    assert row["state"] == 7
    assert place.all(TRANSFER) == []
    assert not [path for path in place.staged() if path.startswith(id)]
    return str(row["error"])


def test_a_download_becomes_a_task_and_a_transfer_in_both_dialects(place: Desk, web: Origin) -> None:
    url = web.at("/hello.txt", origin.file(b"hello"))
    username = place.client.get("/api/me")["data"]["username"]
    for prefix, fields in (("", CREATED), ("/openlist", FIELDS)):
        body = {"urls": [url], "path": f"{place.folder}/new/deep", "tool": "SimpleHttp"}
        (made,) = place.client.ok(f"{prefix}{ROUTE}", **body)["tasks"]
        assert set(made) == fields
        first = {"name": f"download {url} to ({place.folder}/new/deep)", "state": 0, "status": "", "progress": 0}
        assert made | first | {"error": ""} == made
        shown = place.ended(KIND, made["id"])
        last = first | {"state": 2, "progress": 100, "creator": username, "creator_role": 0, "total_bytes": 5}
        assert shown | last | {"error": ""} == shown
        assert place.client.ok(f"/api/task/{KIND}/info", params={"tid": made["id"]}) == [shown | {"state": "succeeded"}]
    inner = place.folder.removeprefix("/files")
    for row in place.all(TRANSFER):
        assert row["name"] == f"transfer [](/hello.txt) to [/files]({inner}/new/deep)"
        assert (row["state"], row["error"], row["total_bytes"], row["creator"]) == (2, "", 5, username)
    assert files(place.disk) == {"new/deep/hello.txt": b"hello"}


def test_several_addresses_are_several_tasks_and_blank_ones_none(place: Desk, web: Origin) -> None:
    urls = [web.at(f"/{name}", origin.file(name.encode())) for name in ("one", "two", "three")]
    made = place.download("", f"  {urls[0]}\t", "  ", *urls[1:], "\n")
    assert len(made) == 3
    assert {place.ended(KIND, id)["state"] for id in made} == {2}
    assert {row["state"] for row in place.all(TRANSFER)} == {2}
    assert files(place.disk) == {"one": b"one", "two": b"two", "three": b"three"}
    assert place.download() == place.download(" ", "") == []


def test_one_address_that_fails_does_not_keep_the_others_back(place: Desk, web: Origin) -> None:
    there, gone = web.at("/there.txt", origin.file(b"there")), web.at("/gone", origin.status(404))
    made = place.download(gone, there)
    assert [place.ended(KIND, id)["error"] for id in made] == ["http status code 404", ""]
    assert {row["state"] for row in place.all(TRANSFER)} == {2}
    assert files(place.disk) == {"there.txt": b"there"}


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


def test_the_name_is_the_servers_or_the_addresses_and_harmless(place: Desk, web: Origin) -> None:
    inner = place.folder.removeprefix("/files")
    wanted = {}
    for number, (path, disposition, name) in enumerate(NAMES):
        page = origin.file(b"x", content_disposition=disposition)
        web.at(f"/{number}{path.partition('?')[0]}", page)
        place.download(f"{web.address}/{number}{path}", path=f"{place.folder}/{number}")
        wanted[f"{number}/{name}"] = b"x"
    assert {row["error"] for row in place.all(KIND) + place.all(TRANSFER)} == {""}
    assert files(place.disk) == wanted
    shown = {row["name"] for row in place.all(TRANSFER)}
    names = [name for *_, name in NAMES]
    assert shown == {f"transfer [](/{name}) to [/files]({inner}/{n})" for n, name in enumerate(names)}


def test_an_address_without_a_name_gets_one_of_its_host(place: Desk, web: Origin) -> None:
    (name,) = brought(place, web.at("/", origin.file(b"x")))
    assert name.startswith("127.0.0.1-")


def test_an_empty_file_and_one_of_unknown_length_arrive(place: Desk, web: Origin) -> None:
    chunked = origin.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n2\r\n !\r\n0\r\n\r\n")
    until_closed = origin.raw(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")
    made = place.download(
        web.at("/empty", origin.file(b"")), web.at("/chunked", chunked), web.at("/closed", until_closed)
    )
    assert [place.ended(KIND, id)["error"] for id in made] == ["", "", ""]
    assert {row["state"] for row in place.all(TRANSFER)} == {2}
    assert files(place.disk) == {"empty": b"", "chunked": b"hello !", "closed": b"until the end"}


def test_an_unknown_tool_is_refused_by_name(place: Desk) -> None:
    message = "failed get offline download tool: tool {} not found"
    for tool in ("", "simplehttp", "Transmission", "x" * 99):
        answer = ask(place.client, "http://example.org/f", place.folder, tool=tool)
        assert refusal(answer) == (500, message.format(tool))


@pytest.mark.parametrize("tool", ["aria2", "qBittorrent"])
def test_a_tool_that_does_not_answer_is_refused_by_name(place: Desk, admin: Client, tool: str) -> None:
    dead = f"http://127.0.0.1:{servers.free_port()}"
    with fixtures.settings(admin, aria2_uri=f"{dead}/jsonrpc", qbittorrent_url=f"http://me:hush@{dead[7:]}/"):
        code, message = refusal(ask(place.client, "http://example.org/f", place.folder, tool=tool))
    assert (code, message.startswith(f"failed init offline download tool {tool}: ")) == (500, True)
    assert "hush" not in message
    assert place.all(KIND) == []


@pytest.mark.parametrize("url", ["ftp://example.org/f", "magnet:?xt=urn:btih:x", "ed2k://|file|f|1|x|/", "file:///etc"])
def test_simple_http_takes_http_only(place: Desk, url: str) -> None:
    message = "SimpleHttp tool does not support this URL scheme, please use aria2 or other tools for magnet/ed2k links"
    assert refusal(ask(place.client, url, place.folder)) == (500, message)


@pytest.mark.parametrize("tool", ["aria2", "qBittorrent"])
def test_no_tool_takes_ed2k(place: Desk, tool: str) -> None:
    message = (
        f"ed2k protocol is not supported by {tool}. "
        "Please configure and use Thunder/ThunderX/ThunderBrowser for ed2k links"
    )
    assert refusal(ask(place.client, "ed2k://|file|f|1|x|/", place.folder, tool=tool)) == (500, message)


def test_an_address_with_a_password_is_refused_and_not_repeated(place: Desk, web: Origin) -> None:
    url = web.address.replace("//", "//user:sesame@")
    code, message = refusal(ask(place.client, url, place.folder))
    assert (code, "sesame" in message) == (500, False)
    first = web.at("/first", origin.file(b"x"))
    assert refusal(place.client.post(ROUTE, urls=[first, url], path=place.folder, tool="SimpleHttp"))[0] == 500
    assert place.all(KIND) == []


def test_a_body_of_the_wrong_kind_is_refused(place: Desk) -> None:
    bodies: list[dict[str, Any]] = [{"urls": "http://x/"}, {"urls": [1]}, {"urls": {"a": 1}}, {"path": 1}, {"tool": []}]
    for body in bodies:
        wanted = {"urls": ["http://example.org/f"], "path": place.folder, "tool": "SimpleHttp"} | body
        assert refusal(place.client.post(ROUTE, **wanted))[0] == 400
    code, message = refusal(ask(place.client, "http://example.org/f", place.folder, delete_policy="sometimes"))
    assert (code, "delete_never" in message) == (400, True)
    assert place.all(KIND) == []


def test_many_addresses_in_one_request_are_refused_as_a_whole(place: Desk) -> None:
    urls = ["http://example.org/f"] * 100_000
    assert refusal(place.client.post(ROUTE, urls=urls, path=place.folder, tool="SimpleHttp"))[0] == 400
    assert place.all(KIND) == []


def test_a_target_that_takes_nothing_is_refused(place: Desk, admin: Client) -> None:
    url = "http://example.org/f"
    nowhere = (500, "failed get storage: storage not found; rawPath: /no/such/place")
    assert refusal(ask(place.client, url, "/no/such/place")) == nowhere
    (place.disk / "file").write_text("x")
    assert refusal(ask(place.client, url, f"{place.folder}/file")) == (500, "not a folder")
    assert refusal(ask(place.client, url, f"{place.folder}/../up"))[0] == 403
    with fixtures.mount(admin, "UrlTree", addition={"url_structure": "f:http://example.org/"}) as path:
        assert refusal(ask(place.client, url, path, tool="aria2")) == (500, "upload not supported")
    assert place.all(KIND) == []


def test_the_right_to_download_and_the_rules_of_the_target_decide(place: Desk, admin: Client, web: Origin) -> None:
    url = web.at("/f", origin.file(b"x"))
    with fixtures.user(place.service, admin, fixtures.ALL_RIGHTS & ~OFFLINE_DOWNLOAD) as without:
        assert refusal(ask(without, url, place.folder)) == DENIED
    with fixtures.user(place.service, admin, OFFLINE_DOWNLOAD) as with_it:
        made = with_it.ok(f"/openlist{ROUTE}", urls=[url], path=place.folder, tool="SimpleHttp")["tasks"]
        assert len(made) == 1
        until(lambda: (place.disk / "f").exists())
        with fixtures.meta(admin, place.folder, write_users=[1], write_users_sub=True):
            assert refusal(ask(with_it, url, place.folder)) == DENIED
            assert refusal(ask(with_it, url, f"{place.folder}/below")) == DENIED
        until(lambda: not with_it.get(f"/openlist/api/task/{TRANSFER}/undone")["data"])
        for kind in (KIND, TRANSFER):
            with_it.ok(f"/api/task/{kind}/clear_done")
    with fixtures.user(place.service, admin, OFFLINE_DOWNLOAD, f"{place.folder}/home") as confined:
        (made,) = confined.ok(f"/openlist{ROUTE}", urls=[url], path="/in", tool="SimpleHttp")["tasks"]
        assert made["name"] == f"download {url} to ({place.folder}/home/in)"
        until(lambda: (place.disk / "home/in/f").exists())
        until(lambda: not confined.get(f"/openlist/api/task/{TRANSFER}/undone")["data"])
        for kind in (KIND, TRANSFER):
            confined.ok(f"/api/task/{kind}/clear_done")


def guests_tasks(admin: Client, kind: str) -> list[dict[str, Any]]:
    """Those of the guest that are done."""
    return [row for row in done(admin, kind) if row["creator"] == "guest"]


def test_the_guest_downloads_only_where_he_may(place: Desk, admin: Client, web: Origin) -> None:
    url = web.at("/guest.txt", origin.file(b"x"))
    assert refusal(ask(place.service.anonymous(), url, place.folder)) == accounts.GUEST_DISABLED
    with accounts.guest(admin, permission=0) as guest:
        assert refusal(ask(guest, url, place.folder)) == DENIED
    with accounts.guest(admin, permission=OFFLINE_DOWNLOAD) as guest:
        (made,) = guest.ok(f"/openlist{ROUTE}", urls=[url], path=place.folder, tool="SimpleHttp")["tasks"]
        assert (made["creator"], made["creator_role"]) == ("guest", 1)
        until(lambda: (place.disk / "guest.txt").exists())
    for kind in (KIND, TRANSFER):
        (row,) = until(partial(guests_tasks, admin, kind))
        admin.ok(f"/api/task/{kind}/delete", params={"tid": row["id"]})


STAYS = {
    "": (True, True),
    "delete_never": (True, True),
    "delete_always": (False, False),
    "delete_on_upload_succeed": (False, True),
    "delete_on_upload_failed": (True, False),
}  # whether the temporary file is there after a transfer that succeeded, and after one that failed


@pytest.mark.parametrize("policy", STAYS)
def test_the_delete_policy_says_what_becomes_of_the_temporary_file(place: Desk, web: Origin, policy: str) -> None:
    (place.disk / "bad/in the way").mkdir(parents=True)
    more = {"delete_policy": policy} if policy else {}
    good, bad = place.download(web.at("/good", origin.file(b"good")), web.at("/bad", origin.file(b"bad")), **more)
    assert [place.ended(KIND, id)["state"] for id in (good, bad)] == [2, 2]
    ends = {row["name"].partition("(/")[2].partition(")")[0]: row for row in place.all(TRANSFER)}
    assert [ends["good"]["state"], ends["bad"]["state"]] == [2, 7]
    assert "bad: file exists" in ends["bad"]["error"]
    stays = tuple(f"{id}.0/body/{name}" in place.staged() for id, name in ((good, "good"), (bad, "bad")))
    assert stays == STAYS[policy]
    assert (place.disk / "good").read_bytes() == b"good"
    (place.disk / "bad/in the way").rmdir()
    (place.disk / "bad").rmdir()
    place.ask("retry", TRANSFER, ends["bad"]["id"])
    again = place.ended(TRANSFER, ends["bad"]["id"])
    if STAYS[policy][1]:
        assert (again["state"], (place.disk / "bad").read_bytes()) == (2, b"bad")
    else:
        assert (again["state"], "object not found" in again["error"]) == (7, True)
        place.ask("retry", KIND, bad)
        assert place.ended(KIND, bad)["state"] == 2
        until(lambda: (place.disk / "bad").is_file())
        assert (place.disk / "bad").read_bytes() == b"bad"


def test_a_deleted_task_takes_its_temporary_file_along(place: Desk, web: Origin) -> None:
    (place.disk / "f/in the way").mkdir(parents=True)
    (id,) = place.download(web.at("/f", origin.file(b"x")), delete_policy="delete_never")
    place.ended(KIND, id)
    (row,) = place.all(TRANSFER)
    assert row["state"] == 7
    place.ask("delete", TRANSFER, row["id"])
    until(lambda: not [path for path in place.staged() if path.startswith((id, row["id"]))])


def test_a_status_that_is_no_file_is_the_error(place: Desk, web: Origin) -> None:
    for status in (400, 401, 403, 404, 410, 500, 503):
        assert failed(place, web.at(f"/{status}", origin.status(status))) == f"http status code {status}"


def test_without_leave_nothing_on_this_machine_is_reached(place: Desk, admin: Client, web: Origin) -> None:
    url = web.at("/private.txt", origin.file(b"x"))
    seen = len(web.asked)
    with fixtures.settings(admin, offline_download_allowed_hosts=""):
        for address in (url, url.replace("127.0.0.1", "localhost"), url.replace("127.0.0.1", "2130706433")):
            assert failed(place, address).endswith(" is not allowed")
        for host in ("169.254.169.254", "10.0.0.1", "[::1]", "0.0.0.0"):
            assert failed(place, f"http://{host}/f") == f"access to {host.strip('[]')} is not allowed"
            place.client.ok(f"/api/task/{KIND}/clear_done")
    assert [one.path for one in web.asked[seen:] if one.path == "/private.txt"] == []
    assert files(place.disk) == {}


@pytest.mark.parametrize("target", ["http://169.254.169.254/latest/meta-data/", "http://127.0.0.2/", "//10.1.2.3/x"])
def test_a_redirect_to_where_nobody_may_go_is_not_followed(place: Desk, web: Origin, target: str) -> None:
    assert failed(place, web.at("/away", origin.redirect(target))).endswith(" is not allowed")


def test_redirects_are_followed_but_not_for_ever(place: Desk, web: Origin) -> None:
    web.at("/real%20name.txt", origin.file(b"found"))
    far = web.at("/one", origin.redirect("/two"))
    web.at("/two", origin.redirect("real%20name.txt", 307))
    assert brought(place, far) == {"real name.txt": b"found"}
    place.client.ok(f"/api/task/{TRANSFER}/clear_done")
    assert "redirects" in failed(place, web.at("/loop", origin.redirect("/loop")))
    scheme = failed(place, web.at("/ftp", origin.redirect("ftp://127.0.0.1/f")))
    assert scheme.startswith("SimpleHttp tool does not support this URL scheme")


def test_more_than_the_setting_allows_is_not_stored(place: Desk, admin: Client, web: Origin) -> None:
    words = "more than the 1 MiB that are allowed"
    with fixtures.settings(admin, offline_download_max_size="1"):
        assert words in failed(place, web.at("/told", origin.file(b"x" * (MIB + 1))))
        chunk = b"%x\r\n%s\r\n" % (3 * MIB, b"x" * 3 * MIB)
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert words in failed(place, web.at("/untold", origin.raw(head + chunk + b"0\r\n\r\n")))
        assert words in failed(place, web.at("/endless", origin.endless(b"x" * MIB)))
        assert brought(place, web.at("/exact", origin.file(b"x" * MIB))) == {"exact": b"x" * MIB}
    assert not [path for path in place.service.find_unfinished(place.service.data / "staging")]


def test_a_download_that_is_cut_off_goes_on_at_the_next_part(place: Desk, web: Origin) -> None:
    page = in_turn(origin.file(LARGE, cut=CUT), origin.file(LARGE))
    seen = len(web.asked)
    assert brought(place, web.at("/cut.bin", page)) == {"cut.bin": LARGE}
    asked = [one.headers.get("range") for one in web.asked[seen:] if one.path == "/cut.bin"]
    assert asked == [None, f"bytes={2 * PART}-"]


def test_a_server_that_cuts_again_and_again_is_asked_again_as_long_as_something_arrives(
    place: Desk, web: Origin
) -> None:
    page = origin.file(LARGE * 3, cut=PART + MIB)
    (id,) = place.download(web.at("/often.bin", page))
    row = place.ended(KIND, id, 60)
    assert (row["state"], row["error"]) == (2, "")
    assert place.all(TRANSFER)[0]["state"] == 2
    assert (place.disk / "often.bin").read_bytes() == LARGE * 3


def test_a_server_that_cannot_go_on_is_asked_for_all_again(place: Desk, web: Origin) -> None:
    page = in_turn(origin.file(LARGE, ranges=False, cut=CUT), origin.file(LARGE, ranges=False))
    assert brought(place, web.at("/whole.bin", page)) == {"whole.bin": LARGE}


def test_a_file_that_changes_on_the_way_is_the_new_one_whole(place: Desk, web: Origin) -> None:
    new = LARGE[::-1] + b"new"
    page = in_turn(origin.file(LARGE, cut=CUT), origin.file(new))
    assert brought(place, web.at("/changed.bin", page)) == {"changed.bin": new}


def test_a_cancelled_download_stops_leaves_nothing_and_can_be_retried(place: Desk, web: Origin) -> None:
    page = Halting(LARGE, CUT)
    (id,) = place.download(web.at("/slow.bin", page))
    assert page.halted.wait(20)
    until(lambda: place.info(KIND, id)["progress"] > 0)
    place.ask("cancel", KIND, id)
    assert place.info(KIND, id)["state"] in (3, 4)
    row = place.ended(KIND, id)
    assert (row["state"], row["error"]) == (4, "context canceled")
    page.go.set()
    assert place.all(TRANSFER) == [] and files(place.disk) == {}
    assert not [path for path in place.staged() if path.startswith(id)]
    assert place.service.find_unfinished(place.service.data / "staging" / f"{id}.0") == []
    place.ask("retry", KIND, id)
    assert place.ended(KIND, id)["state"] == 2
    assert [row["state"] for row in place.all(TRANSFER)] == [2]
    assert files(place.disk) == {"slow.bin": LARGE}


def test_a_download_that_is_deleted_under_way_leaves_nothing(place: Desk, web: Origin) -> None:
    page = Halting(LARGE, CUT)
    (id,) = place.download(web.at("/slow.bin", page))
    assert page.halted.wait(20)
    place.ask("delete", KIND, id)
    assert refusal(place.client.post(f"/api/task/{KIND}/info", params={"tid": id})) == (404, "task not found")
    staging = place.service.data / "staging"
    until(lambda: not list(staging.glob(f"{id}*")) and not place.service.find_unfinished(staging / f"{id}.0"))
    page.go.set()
    assert place.all(TRANSFER) == [] and files(place.disk) == {}


def test_a_download_fails_and_is_retried_when_the_file_is_there(place: Desk, web: Origin) -> None:
    page = in_turn(origin.status(503), origin.file(b"at last"))
    (id,) = place.download(web.at("/late.txt", page))
    assert place.ended(KIND, id)["error"] == "http status code 503"
    place.ask("retry", KIND, id)
    row = place.ended(KIND, id)
    assert (row["state"], row["error"]) == (2, "")
    assert [one["state"] for one in place.all(TRANSFER)] == [2]
    assert files(place.disk) == {"late.txt": b"at last"}


def test_who_loses_the_right_midway_gets_nothing_until_he_has_it_again(place: Desk, web: Origin) -> None:
    page = Halting(b"x" * 1000, 500)
    (id,) = place.download(web.at("/secret.txt", page))
    assert page.halted.wait(20)
    place.may(fixtures.ALL_RIGHTS & ~OFFLINE_DOWNLOAD)
    page.go.set()
    row = place.ended(KIND, id)
    assert (row["state"], row["error"]) == (7, "permission denied")
    assert place.all(TRANSFER) == [] and files(place.disk) == {}
    assert not [path for path in place.staged() if path.startswith(id)]
    place.ask("retry", KIND, id)
    assert place.ended(KIND, id)["error"] == "permission denied"
    place.may(fixtures.ALL_RIGHTS)
    place.ask("retry", KIND, id)
    assert place.ended(KIND, id)["state"] == 2
    until(lambda: (place.disk / "secret.txt").exists())


def test_a_rule_that_comes_midway_keeps_the_file_out(place: Desk, admin: Client, web: Origin) -> None:
    page = Halting(b"x" * 1000, 500)
    (id,) = place.download(web.at("/ruled.txt", page), path=f"{place.folder}/in")
    assert page.halted.wait(20)
    with fixtures.meta(admin, f"{place.folder}/in", write_users=[1]):
        page.go.set()
        row = place.ended(KIND, id)
        assert (row["state"], row["error"]) == (7, "permission denied")
    assert place.all(TRANSFER) == [] and files(place.disk) == {}


def test_downloads_into_a_url_tree_store_the_address_and_open_no_task(place: Desk, admin: Client, web: Origin) -> None:
    url, seen = web.address + "/some%20file.bin?x=1", len(web.asked)
    with fixtures.mount(admin, "UrlTree", addition={"url_structure": "old:http://e.org/", "writable": True}) as path:
        body = {"urls": [url, "http://example.org/two.txt"], "tool": "SimpleHttp"}
        assert place.client.ok(ROUTE, path=path, **body) == {"tasks": []}
        assert place.client.ok(ROUTE, path=f"{path}/new/deep", **body) == {"tasks": []}
        assert place.client.names(path) == ["new", "old", "some file.bin", "two.txt"]
        assert place.client.names(f"{path}/new/deep") == ["some file.bin", "two.txt"]
        assert admin.ok("/api/fs/link", path=f"{path}/some file.bin")["url"] == url
    with fixtures.mount(admin, "UrlTree", addition={"url_structure": "old:http://e.org/"}) as path:
        assert refusal(ask(place.client, url, path))[0] != 200
    assert place.all(KIND) == [] and web.asked[seen:] == []


def test_a_bucket_receives_small_and_large_files(place: Desk, admin: Client, web: Origin) -> None:
    with servers.moto_s3() as endpoint:
        options = servers.s3_options(endpoint, servers.make_bucket(endpoint))
        with fixtures.mount(admin, "S3", addition=options) as path:
            urls = [web.at("/small.txt", origin.file(b"small")), web.at("/large.bin", origin.file(LARGE))]
            made = place.download(*urls, path=f"{path}/in", delete_policy="delete_on_upload_succeed")
            assert {place.ended(KIND, id)["state"] for id in made} == {2}
            assert [(row["state"], row["error"]) for row in place.all(TRANSFER)] == [(2, ""), (2, "")]
            for name, content in (("small.txt", b"small"), ("large.bin", LARGE)):
                link = admin.ok("/api/fs/get", path=f"{path}/in/{name}")["raw_url"]
                assert httpx.get(link, follow_redirects=True).content == content
    assert not [one for one in place.staged() if one.startswith(tuple(made))]


def test_aria2_brings_a_file_and_says_how_far_it_is(place: Desk, admin: Client, web: Origin) -> None:
    page = Halting(LARGE, MIB)
    with servers.aria2() as tool:
        with fixtures.settings(admin, aria2_uri=tool.uri, aria2_secret=tool.secret):
            (id,) = place.download(web.at("/by aria.bin".replace(" ", "%20"), page), tool="aria2")
            until(lambda: place.info(KIND, id)["status"] == "[aria2]: aria2: active")
            page.go.set()
            row = place.ended(KIND, id)
    assert (row["state"], row["error"]) == (2, "")
    assert row["status"] == "offline download completed, maybe transferring"
    assert [one["state"] for one in place.all(TRANSFER)] == [2]
    assert files(place.disk) == {"by aria.bin": LARGE}


def test_aria2_brings_no_more_than_the_setting_allows_either(place: Desk, admin: Client, web: Origin) -> None:
    with servers.aria2() as tool:
        how = {"aria2_uri": tool.uri, "aria2_secret": tool.secret, "offline_download_max_size": "1"}
        with fixtures.settings(admin, **how):
            (id,) = place.download(web.at("/large", origin.file(LARGE)), tool="aria2")
            row = place.ended(KIND, id)
    assert (row["state"], row["error"]) == (7, "the file has more than the 1 MiB that are allowed")
    assert files(place.disk) == {}
    assert place.all(TRANSFER) == []


def test_a_killed_service_goes_on_with_the_next_part(tmp_path: Path, web: Origin) -> None:
    page = Halting(LARGE, CUT)
    url = web.at("/killed.bin", page)
    with run_service(tmp_path / "data") as service:
        admin = service.client()
        fixtures.save(admin, {"offline_download_allowed_hosts": "127.0.0.1"})
        body = {"urls": [url], "path": "/files/in", "tool": "SimpleHttp", "delete_policy": "delete_always"}
        (made,) = admin.ok(f"/openlist{ROUTE}", **body)["tasks"]
        info = f"/openlist/api/task/{KIND}/info"
        until(lambda: admin.ok(info, params={"tid": made["id"]})["progress"] >= 80)
        assert page.halted.is_set()
        service.kill()
    page.go.set()
    with run_service(tmp_path / "data") as service:
        target = service.data / "files/in/killed.bin"
        until(target.exists)
        assert target.read_bytes() == LARGE
        assert page.begun == [0, 2 * PART]
        again = Client(service.address, admin.token)
        for kind in (KIND, TRANSFER):
            (row,) = until(partial(done, again, kind))
            assert (row["state"], row["error"]) == (2, "")
        assert [path for path in (service.data / "staging").rglob("*") if path.is_file()] == []
        assert service.find_unfinished(service.data / "files") == []


def test_what_cannot_be_had_fails_in_the_end_and_says_why(unlucky: Desk) -> None:
    short, closed = sorted(unlucky.all(KIND, 50), key=lambda row: row["name"].endswith("closed"))
    assert (short["state"], closed["state"]) == (7, 7)
    assert short["error"] == "127.0.0.1: the connection broke off"
    assert closed["error"] == "127.0.0.1: no connection"
    assert unlucky.all(TRANSFER) == [] and files(unlucky.disk) == {}
