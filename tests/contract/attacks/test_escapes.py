"""Attacks 1-4: no text in any field of any route leads out of the user's base path or into a neighbour's."""

from __future__ import annotations

import http.client
import json
from urllib.parse import quote, urlsplit

import pytest

from mangrove.standalone import docs
from tests.contract.attacks.scene import (
    BARE,
    PARENT_PATHS,
    Field,
    Scene,
    check_answer,
    fields,
    operations,
    replace_text,
    send,
)
from tests.contract.request_fields import (
    ADDRESSES,
    ATTACKED,
    FILES,
    MEMBERS,
    NOT_PATHS,
    OPENS_TASKS,
    SELECTIONS,
    TASKS,
)
from tests.support.service import Client, Service

ABSENT = ("POST /api/fs/other", "POST /api/fs/get_direct_upload_info")  # what a Local storage does not do
NOTHING_KEPT = {"POST /api/fs/versions/restore": 500, "POST /api/fs/trash/restore": 400}  # nothing is kept
FILE_FIELDS = [(name, text) for name, (texts, _) in FILES.items() for text in sorted(texts)]


def test_the_service_serves_the_document_that_these_attacks_are_made_from(service: Service) -> None:
    assert service.anonymous().http.get("/openapi.json").content == docs.render_document()


@pytest.mark.parametrize("name", operations())
def test_every_text_of_every_request_is_attacked_or_said_to_be_no_path(name: str) -> None:
    told = ATTACKED.get(name, set()) | NOT_PATHS.get(name, set())
    assert {field.name for field in fields(name)} == told
    assert not ATTACKED.get(name, set()) & NOT_PATHS.get(name, set())


def test_what_is_attacked_exists() -> None:
    assert set(ATTACKED) | set(NOT_PATHS) <= set(operations())


@pytest.mark.parametrize("name", FILES)
def test_the_request_that_carries_an_attack_is_a_good_one(fresh: Scene, name: str) -> None:
    fresh.reset("/archive/" in name)
    answer = check_answer(send(fresh.user, name, FILES[name][1]))
    if name in ABSENT:
        assert (answer["code"], answer["message"]) == (500, "the storage cannot do this")
    else:
        assert answer["code"] in {200, NOTHING_KEPT.get(name, 200)}, answer


@pytest.mark.parametrize(("name", "text"), FILE_FIELDS)
def test_no_text_in_a_file_route_leads_out_of_the_base_path(fresh: Scene, name: str, text: str) -> None:
    packed = "/archive/" in name
    fresh.reset(packed)
    before, own_files = fresh.scan_outside(), fresh.scan_own()
    for attack in fresh.list_texts():
        good = FILES[name][1]
        request = attack if isinstance(good, str) else replace_text(good, text, attack)
        answer = send(fresh.user, name, request)
        envelope = check_answer(answer)
        fresh.check_unseen(attack, answer)
        if envelope["code"] == 200:
            if name in OPENS_TASKS:
                fresh.settle()
            fresh.reset(packed)
        else:
            assert fresh.scan_own().keys() == own_files.keys(), (attack, envelope)
    assert fresh.scan_outside() == before


@pytest.mark.parametrize("name", TASKS)
def test_no_text_in_a_task_route_is_anybody_s_task(fresh: Scene, name: str) -> None:
    method, _, route = name.partition(" ")
    for text in (*PARENT_PATHS, *BARE, "x" * 21, "x" * 5000):
        for kind, id in ((text, "x" * 21), ("copy", text)):
            path = route.replace("{kind}", quote(kind.encode("utf-8", "surrogateescape"), safe=""))
            tid = quote(id.encode("utf-8", "surrogateescape"))
            body = json.dumps([id], ensure_ascii=False).encode("utf-8", "surrogateescape")
            answer = fresh.user.http.request(method, f"{path}?tid={tid}", content=body if "_some" in route else b"")
            envelope = check_answer(answer)
            fresh.check_unseen(text, answer)
            if envelope["code"] == 200:
                assert kind == "copy" and envelope["data"] in (None, [], {id: "task not found"}), (text, envelope)


SEPARATED = ("a/b", "a\\b", "/x", "\\x", "../x", "..", ".", "sub/x", "sub\\x", "x/", "x\\", "../ab/x")


@pytest.mark.parametrize("new", SEPARATED)
def test_a_new_name_is_one_name(fresh: Scene, new: str) -> None:
    before, own_files = fresh.scan_outside(), fresh.scan_own()
    renaming = [{"src_name": "g.txt", "new_name": "fine.txt"}, {"src_name": "f.txt", "new_name": new}]
    escaped = new.replace("$", "$$")
    for verb, body in (
        ("rename", {"path": "/f.txt", "name": new, "overwrite": True}),
        ("batch_rename", {"src_dir": "/", "rename_objects": renaming}),
        ("regex_rename", {"src_dir": "/", "src_name_regex": r"^(f\.txt)$", "new_name_regex": escaped}),
    ):
        assert fresh.user.post(f"/api/fs/{verb}", **body)["code"] in (400, 403), verb
    for template in ("$1/$2", "$1\\$2", "${1}/../../$2", "/$1"):
        body = {"src_dir": "/", "src_name_regex": r"^(f)\.(txt)$", "new_name_regex": template}
        assert fresh.user.post("/api/fs/regex_rename", **body)["code"] in (400, 403), template
    assert (fresh.scan_outside(), fresh.scan_own()) == (before, own_files)


@pytest.mark.parametrize("where", ["GET /api/fs/list", "POST /api/fs/list", "PUT /api/fs/put"])
def test_bytes_that_are_no_text_are_refused(fresh: Scene, where: str) -> None:
    own_files = fresh.scan_own()
    for bad in ("\udcc0\udcae", "\udcff", "\udced\udca0\udc80"):
        request = f"/{bad}" if where.startswith("PUT ") else {"path": f"/{bad}"}
        assert check_answer(send(fresh.user, where, request))["code"] != 200
    assert fresh.scan_own() == own_files


@pytest.mark.parametrize("header", ["%", "%zz", "%2", "..%2Fab%2Fnotes.txt", "%2e%2e/ab/notes.txt", "%5c..%5cab%5cx"])
def test_a_file_path_header_is_decoded_once_and_then_checked(fresh: Scene, header: str) -> None:
    before, own_files = fresh.scan_outside(), fresh.scan_own()
    for route in ("put", "form"):
        files = {"file": ("f", b"new")}
        answer = fresh.user.http.put(f"/api/fs/{route}", headers={"file-path": header}, files=files)
        assert check_answer(answer)["code"] in (400, 403)
    assert (fresh.scan_outside(), fresh.scan_own()) == (before, own_files)


@pytest.mark.parametrize("text", ["%2e%2e%2fx", "%252e%252e", "a%2fb", "a+b"])
def test_an_escaped_escape_is_part_of_the_name(fresh: Scene, text: str) -> None:
    before = fresh.scan_outside()
    assert fresh.user.put(f"/{text}", b"new")["code"] == 200
    assert (fresh.disk / text).read_bytes() == b"new"
    assert fresh.user.bytes(f"/{text}").content == b"new"
    assert check_answer(send(fresh.user, "GET /api/fs/get", {"path": f"/{text}"}))["data"]["name"] == text
    assert fresh.scan_outside() == before


def test_the_file_name_of_a_form_part_decides_nothing(fresh: Scene) -> None:
    before = fresh.scan_outside()
    files = {"file": ("../../ab/notes.txt", b"new")}
    check_answer(fresh.user.http.put("/api/fs/form", headers={"file-path": "/new.txt"}, files=files))
    assert (fresh.disk / "new.txt").read_bytes() == b"new"
    assert fresh.scan_outside() == before


def _request(service: Service, method: str, target: str) -> tuple[int, bytes]:
    """A request whose target is sent exactly as it is."""
    connection = http.client.HTTPConnection(urlsplit(service.address).netloc, timeout=60)
    try:
        connection.putrequest(method, target, skip_accept_encoding=True)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize("name", ADDRESSES)
def test_a_signature_opens_its_own_file_only_however_the_path_is_written(
    service: Service, fresh: Scene, name: str
) -> None:
    method, _, route = name.partition(" ")
    url = urlsplit(fresh.user.ok("/api/fs/get", path="/f.txt")["raw_url"])
    start = route.removesuffix("/{path}") + fresh.base
    own = (200, b"" if method == "HEAD" else b"mine: f.txt")
    assert _request(service, method, f"{start}/f.txt?{url.query}") == own
    for text in fresh.list_texts():
        tail = quote(text.encode("utf-8", "surrogateescape"))
        for target in (f"{start}/{tail}", f"{start}{tail}", f"{start}/f.txt/{tail}", f"{start[:2]}{tail}"):
            status, body = _request(service, method, f"{target}?{url.query}")
            assert status in (400, 401, 403, 404) or (status, body) == own, (target, status, body[:200])
            assert fresh.secret.encode() not in body
    for written in (
        "/../ab/notes.txt",
        "/%2e%2e/ab/notes.txt",
        "b/notes.txt",
        "/..;/ab/notes.txt",
        "/..%5cab%5cnotes.txt",
    ):
        status, body = _request(service, method, f"{start}{written}?{url.query}")
        assert status in (400, 401, 403, 404), (written, status)
        assert fresh.secret.encode() not in body


@pytest.mark.parametrize("name", MEMBERS)
def test_a_signature_of_an_archive_opens_its_own_members_only(service: Service, fresh: Scene, name: str) -> None:
    fresh.reset(packed=True)
    method, _, route = name.partition(" ")
    meta = fresh.user.ok("/api/fs/archive/meta", path="/x.zip")
    start = route.removesuffix("/{path}") + fresh.base
    own = (200, b"" if method == "HEAD" else b"packed: f.txt")
    sign = f"sign={quote(meta['sign'])}"
    assert _request(service, method, f"{start}/x.zip?inner=f.txt&{sign}") == own
    plain = urlsplit(fresh.user.ok("/api/fs/get", path="/x.zip")["raw_url"])
    assert _request(service, method, f"{start}/x.zip?inner=f.txt&{plain.query}")[0] == 401
    assert _request(service, method, f"{plain.path}?{sign}")[0] == 401
    for text in fresh.list_texts():
        tail = quote(text.encode("utf-8", "surrogateescape"), safe="")
        targets = [f"{start}/{tail}?inner=f.txt", f"{start}/x.zip/{tail}?inner=f.txt", f"{start}/x.zip?inner={tail}"]
        for target in targets:
            status, body = _request(service, method, f"{target}&{sign}")
            assert status in (400, 401, 403, 404) or (status, body) == own, (target, status, body[:200])
            assert fresh.secret.encode() not in body


@pytest.mark.parametrize("name", SELECTIONS)
def test_a_signature_of_a_selection_opens_its_own_folder_only(service: Service, fresh: Scene, name: str) -> None:
    method, _, route = name.partition(" ")
    url = urlsplit(fresh.user.ok("/api/fs/zip", dir="/", names=["f.txt"])["url"])
    start = route.removesuffix("/{path}") + fresh.base
    assert url.path == start
    status, body = _request(service, method, f"{start}?{url.query}")
    assert status == 200 and (method == "HEAD" or b"mine: f.txt" in body)
    plain = urlsplit(fresh.user.ok("/api/fs/get", path="/f.txt")["raw_url"])
    assert _request(service, method, f"{start}?{plain.query}")[0] == 401
    for text in fresh.list_texts():
        tail = quote(text.encode("utf-8", "surrogateescape"), safe="")
        for target in (f"{start}/{tail}?{url.query}", f"{start}?id={tail}&{url.query.partition('&')[2]}"):
            status, body = _request(service, method, target)
            assert status in (200, 400, 401, 403, 404), (target, status, body[:200])
            assert fresh.secret.encode() not in body


def test_a_direct_link_stays_in_the_tree(scene: Scene, admin: Client) -> None:
    for text in scene.list_texts():
        answer = check_answer(send(admin, "POST /api/fs/link", {"path": text}))
        if answer["code"] == 200:
            target = urlsplit(answer["data"]["url"])
            _, body = _request(scene.service, "GET", f"{target.path}?{target.query}")
            assert scene.secret.encode() not in body or text.endswith("ab/notes.txt")
            assert ".." not in target.path.split("/")


def test_every_kind_of_place_is_attacked() -> None:
    places = {field.where for name in ATTACKED for field in fields(name) if field.name in ATTACKED[name]}
    assert places == {"body", "query", "header", "path"}
    assert Field("body", "rename_objects[].new_name") in fields("POST /api/fs/batch_rename")
