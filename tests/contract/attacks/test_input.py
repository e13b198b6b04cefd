"""Input that is too long, too deep, too numerous or of another type is refused completely, and the service
continues.
"""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.contract.attacks.scene import Scene, check_answer, fields, replace_text, send
from tests.contract.request_fields import FILES
from tests.support.service import Client

FILE_BODIES = [
    (name, field.name)
    for name, (_, request) in FILES.items()
    if isinstance(request, dict)
    for field in sorted(fields(name), key=lambda field: field.name)
    if field.name not in ("force_root", "X-Share-Session")
]
MEGABYTE = "x" * (1 << 20)


def _check_nothing_done(scene: Scene, answer: httpx.Response, own_files: Any) -> dict[str, Any]:
    envelope = check_answer(answer)
    assert scene.scan_own() == own_files
    assert scene.user.get("/api/me")["code"] == 200
    return envelope


@pytest.mark.parametrize(("name", "field"), FILE_BODIES)
def test_a_text_of_a_megabyte_in_any_field_is_refused(fresh: Scene, name: str, field: str) -> None:
    own_files, request = fresh.scan_own(), FILES[name][1]
    if field not in FILES[name][0]:
        request = {**request, **({field.removesuffix("[]"): [""]} if field.endswith("[]") else {field: ""})}
    long = MEGABYTE[: 32 << 10] if name.startswith("GET ") else MEGABYTE
    answer = send(fresh.user, name, replace_text(request, field, long))
    if name.startswith("GET ") and answer.status_code in (400, 414, 431):
        return
    envelope = _check_nothing_done(fresh, answer, own_files)
    assert envelope["code"] == 400
    assert len(answer.content) < 5000


@pytest.mark.parametrize("size", [4097, 7000, 70_000])
def test_a_file_path_header_that_is_too_long_stores_nothing(fresh: Scene, size: int) -> None:
    own_files = fresh.scan_own()
    answer = fresh.user.http.put("/api/fs/put", headers={"file-path": "/" + "x" * size}, content=b"x")
    assert answer.status_code == 200 or 400 <= answer.status_code < 500
    if answer.status_code == 200:
        assert check_answer(answer)["code"] == 400
    assert fresh.scan_own() == own_files
    assert fresh.user.get("/api/me")["code"] == 200


@pytest.mark.parametrize("length", [255, 256, 4000])
def test_a_name_longer_than_a_disk_keeps_is_refused_whole(fresh: Scene, length: int) -> None:
    own_files = fresh.scan_own()
    long = "n" * length
    code = fresh.user.post("/api/fs/rename", path="/f.txt", name=long)["code"]
    assert code == (200 if length == 255 else 400)
    if length > 255:
        assert fresh.user.post("/api/fs/mkdir", path=f"/a/b/{long}")["code"] == 400
        assert fresh.user.put(f"/a/b/{long}", b"x")["code"] == 400
        assert fresh.scan_own().keys() == own_files.keys()


NUMBERS = [
    "-1",
    "0",
    "-9223372036854775808",
    "9223372036854775807",
    "1" + "0" * 400,
    "1e400",
    "1.5",
    "NaN",
    "-0",
    "null",
]


@pytest.mark.parametrize("number", NUMBERS)
def test_no_number_breaks_a_listing(fresh: Scene, admin: Client, number: str) -> None:
    for key in ("page", "per_page"):
        answer = fresh.user.http.post("/api/fs/list", content=f'{{"path": "/", "{key}": {number}}}')
        envelope = check_answer(answer)
        assert envelope["code"] in (200, 400)
        assert envelope["code"] == 400 or len(envelope["data"]["content"]) <= 4
        for route in ("/api/fs/list", "/api/admin/user/list", "/api/admin/storage/list", "/api/admin/meta/list"):
            assert check_answer(admin.http.get(route, params={key: number, "path": fresh.base}))["code"] in (200, 400)


@pytest.mark.parametrize("number", ["-1", "0", "9" * 30, "1e9", "٣", "1_000", "0x10", " 1", "1\0", "NaN", "", "'", "$"])
def test_no_id_breaks_a_record_route(admin: Client, number: str) -> None:
    users = admin.get("/api/admin/user/list")["data"]
    for kind in ("user", "storage", "meta"):
        assert check_answer(admin.http.get(f"/api/admin/{kind}/get", params={"id": number}))["code"] in (400, 404, 500)
        for verb in ("delete", "update"):
            answer = admin.http.post(f"/api/admin/{kind}/{verb}", params={"id": number}, content="{}")
            assert check_answer(answer)["code"] in (400, 404, 500)
    assert admin.get("/api/admin/user/list")["data"] == users


@pytest.mark.parametrize("shape", ["lists", "objects", "names", "mixed"])
def test_json_ten_thousand_levels_deep_is_refused(fresh: Scene, shape: str) -> None:
    own_files, levels = fresh.scan_own(), 10_000
    text = {
        "lists": "[" * levels + "]" * levels,
        "objects": '{"a":' * levels + "1" + "}" * levels,
        "names": '{"dir": "/", "names": ' + "[" * levels + "]" * levels + "}",
        "mixed": '{"dir": "/", "names": ["f.txt"], "x": ' + '[{"a":' * levels + "1" + "}]" * levels + "}",
    }[shape]
    answer = fresh.user.http.post("/api/fs/remove", content=text)
    assert _check_nothing_done(fresh, answer, own_files)["code"] == 400
    assert len(answer.content) < 5000


@pytest.mark.parametrize("verb", ["remove", "move", "copy"])
def test_a_hundred_thousand_bad_names_do_nothing(fresh: Scene, verb: str) -> None:
    own_files = fresh.scan_own()
    body = {"dir": "/", "src_dir": "/", "dst_dir": "/empty", "names": ["f.txt"] * 99_999 + [".."]}
    assert _check_nothing_done(fresh, fresh.user.http.post(f"/api/fs/{verb}", json=body), own_files)["code"] in (
        400,
        403,
    )
    body["names"] = ["f.txt"] * 100_001
    answer = fresh.user.http.post(f"/api/fs/{verb}", json=body)
    assert _check_nothing_done(fresh, answer, own_files)["code"] == 400


def test_a_hundred_thousand_renames_to_one_name_do_nothing(fresh: Scene) -> None:
    own_files = fresh.scan_own()
    renaming = [{"src_name": f"missing{number}", "new_name": "x.txt"} for number in range(50_000)]
    renaming.insert(0, {"src_name": "f.txt", "new_name": "x.txt"})
    answer = fresh.user.http.post("/api/fs/batch_rename", json={"src_dir": "/", "rename_objects": renaming})
    assert _check_nothing_done(fresh, answer, own_files)["code"] != 200


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(.*)*x", "((((((((((a*)*)*)*)*)*)*)*)*)*b", "a{1000}{1000}", "\\", "(?<"]
)
def test_no_pattern_holds_the_service_up(fresh: Scene, pattern: str) -> None:
    (fresh.disk / ("a" * 200)).write_text("x")
    body = {"src_dir": "/", "src_name_regex": pattern, "new_name_regex": "$1" * 400}
    answer = fresh.user.http.post("/api/fs/regex_rename", json=body, timeout=60)
    check_answer(answer)
    assert len(answer.content) < 5000
    assert (fresh.disk / "f.txt").read_text() == "mine: f.txt"


@pytest.mark.parametrize("key", ["path", "names", "password"])
def test_texts_where_something_else_is_wanted_are_refused(fresh: Scene, key: str) -> None:
    own_files = fresh.scan_own()
    good = {"dir": "/", "names": ["f.txt"], "path": "/", "password": ""}
    for value in (5, True, {"a": 1}, [["f.txt"]], [None], [5], {"0": "f.txt"}):
        route = "remove" if key == "names" else "list"
        answer = fresh.user.http.post(f"/api/fs/{route}", content=json.dumps(good | {key: value}))
        assert _check_nothing_done(fresh, answer, own_files)["code"] == 400
