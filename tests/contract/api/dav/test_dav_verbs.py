"""Changes of the tree by WebDAV, with the rights and refusals of other protocols."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.api import fixtures
from tests.contract.api.accounts import People
from tests.contract.api.dav_client import EVERYTHING, LOCK, Dav
from tests.support.service import Client, Service

WRITE, RENAME, MOVE, COPY, DELETE = (1 << bit for bit in range(3, 8))
PATCH = (
    '<D:propertyupdate xmlns:D="DAV:"><D:set><D:prop><color xmlns="u:c" a="1">red<b/></color></D:prop></D:set>'
    "</D:propertyupdate>"
)
COLOR, VALUE = "{u:c}color", "red{u:c}b"


def test_a_file_is_stored_replaced_read_in_parts_and_removed(dav: Dav, folder: str) -> None:
    first = dav.send("PUT", f"{folder}/f", b"0123456789", x_oc_mtime="1577934245")
    assert (first.status_code, first.headers["x-oc-mtime"]) == (201, "accepted")
    part = dav.send("GET", f"{folder}/f", range="bytes=2-4")
    assert (part.status_code, part.content) == (206, b"234")
    assert dav.send("HEAD", f"{folder}/f").headers["content-length"] == "10"
    assert dav.status("PUT", f"{folder}/f", b"new") == 204
    assert dav.send("GET", f"{folder}/f").content == b"new"
    assert dav.status("GET", folder) == 405 and dav.status("HEAD", folder) == 200
    assert [dav.status("DELETE", f"{folder}/f"), dav.status("DELETE", f"{folder}/f")] == [204, 404]


def test_conditions_keep_what_is_there(dav: Dav, folder: str) -> None:
    tag = dav.send("PUT", f"{folder}/f", b"old").headers["etag"]
    for headers in ({"if_none_match": "*"}, {"if_match": '"other"'}, {"if": '(["other"])'}, {"if": "(<urn:x>)"}):
        assert dav.status("PUT", f"{folder}/f", b"new", **headers) == 412
    assert dav.status("PUT", f"{folder}/none", b"new", if_match="*") == 412
    assert dav.status("DELETE", f"{folder}/f", if_match='"other"') == 412
    assert dav.send("GET", f"{folder}/f").content == b"old"
    assert dav.status("GET", f"{folder}/f", if_none_match=tag) == 304
    assert dav.status("PUT", f"{folder}/f", b"new", if_match=tag) == 204
    assert dav.status("PUT", f"{folder}/g", b"new", if_none_match="*") == 201


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content_range": "bytes 0-1/5"}, 400), ({"x_oc_mtime": "soon"}, 400), ({"x_oc_mtime": "9" * 15}, 400),
        ({"if": "("}, 400), ({"if": "(<urn:x)"}, 400), ({"if": "<urn:x>"}, 400), ({"if": "x" * 20_000}, 400),
    ],
)  # fmt: skip
def test_a_header_that_cannot_be_read_stores_nothing(
    dav: Dav, admin: Client, folder: str, headers: dict[str, str], status: int
) -> None:
    assert dav.status("PUT", f"{folder}/f", b"bytes", **headers) == status
    assert admin.names(folder) == []


def test_folders_are_made_where_there_is_a_folder_and_nothing_has_the_name(dav: Dav, folder: str) -> None:
    assert [dav.status("MKCOL", f"{folder}/d"), dav.status("MKCOL", f"{folder}/d")] == [201, 405]
    assert dav.status("MKCOL", f"{folder}/none/d") == dav.status("PUT", f"{folder}/none/f", b"x") == 409
    assert dav.status("MKCOL", f"{folder}/e", b"body") == 415
    assert dav.status("PUT", f"{folder}/d", b"x") == 405


def test_a_copy_has_its_own_name_and_replaces_only_what_it_may(dav: Dav, admin: Client, folder: str) -> None:
    for path, content in (("d/a", b"a"), ("d/s/b", b"b"), ("e/old", b"old"), ("f", b"f")):
        admin.put(f"{folder}/{path}", content)
    assert dav.carry("COPY", f"{folder}/d", f"{folder}/copied") == 201
    assert dav.carry("COPY", f"{folder}/f", f"{folder}/g") == 201
    assert dav.carry("COPY", f"{folder}/d", f"{folder}/e", overwrite="F") == 412
    assert admin.names(f"{folder}/e") == ["old"]
    assert dav.carry("COPY", f"{folder}/d", f"{folder}/e") == 204
    assert admin.names(f"{folder}/e") == ["a", "s"]
    assert dav.carry("COPY", f"{folder}/d", f"{folder}/shallow", depth="0") == 201
    assert admin.names(f"{folder}/shallow") == []
    assert dav.carry("COPY", f"{folder}/f", f"{folder}/none/f") == 409
    assert dav.carry("COPY", f"{folder}/none", f"{folder}/x") == 404
    assert dav.carry("COPY", f"{folder}/d", f"{folder}/d/inside") == 409
    assert dav.carry("COPY", f"{folder}/d/a", f"{folder}/d") == 403
    assert dav.carry("COPY", f"{folder}/f", f"{folder}/f") == 403
    assert admin.names(folder) == ["copied", "d", "e", "f", "g", "shallow"]


def test_hidden_name_that_must_be_free_is_refused_taken_or_not(dav: Dav, admin: Client, folder: str) -> None:
    for path in ("mine.txt", "d/secret-taken.txt", "d/shown.txt"):
        admin.put(f"{folder}/{path}", path.encode())
    told = set()
    with fixtures.meta(admin, f"{folder}/d", hide="secret"):
        for name in ("secret-taken.txt", "secret-free.txt"):
            target = f"{folder}/d/{name}"
            place = {"destination": f"{dav.address}{dav.root}{target}", "overwrite": "F"}
            answers = [
                dav.send("PUT", target, b"new", if_none_match="*"),
                dav.send("MKCOL", target),
                dav.send("LOCK", target, LOCK.format(scope="exclusive")),
                dav.send("COPY", f"{folder}/mine.txt", **place),
                dav.send("MOVE", f"{folder}/mine.txt", **place),
                dav.send("COPY", f"{folder}/d/shown.txt", **place),
                dav.send("MOVE", f"{folder}/d/shown.txt", **place),
            ]
            assert {answer.status_code for answer in answers} == {412}
            told.add(tuple(answer.text for answer in answers))
    assert len(told) == 1 and "the name is hidden here" in next(iter(told))[0]
    assert admin.names(folder) == ["d", "mine.txt"]
    assert admin.names(f"{folder}/d") == ["secret-taken.txt", "shown.txt"]
    assert dav.send("GET", f"{folder}/d/secret-taken.txt").content == b"d/secret-taken.txt"


def test_a_move_renames_moves_and_replaces(dav: Dav, admin: Client, folder: str) -> None:
    for path, content in (("d/a", b"a"), ("e/old", b"old"), ("f", b"f"), ("g", b"g")):
        admin.put(f"{folder}/{path}", content)
    assert dav.carry("MOVE", f"{folder}/f", f"{folder}/g", overwrite="F") == 412
    assert dav.carry("MOVE", f"{folder}/f", f"{folder}/g") == 204
    assert dav.send("GET", f"{folder}/g").content == b"f"
    assert dav.carry("MOVE", f"{folder}/g", f"{folder}/d/h") == 201
    assert dav.carry("MOVE", f"{folder}/d", f"{folder}/e") == 204
    assert (admin.names(folder), admin.names(f"{folder}/e")) == (["e"], ["a", "h"])
    assert dav.carry("MOVE", "/files", f"{folder}/inside") == dav.status("DELETE", "/files") == 403


def test_between_two_storages_a_copy_or_move_is_there_when_the_answer_is(
    dav: Dav, admin: Client, folder: str, tmp_path: Path
) -> None:
    for path in ("d/a", "d/s/b", "f"):
        admin.put(f"{folder}/{path}", b"bytes")
    with fixtures.local(admin, tmp_path) as mount:
        assert dav.carry("COPY", f"{folder}/d", f"{mount}/copied") == 201
        assert (tmp_path / "copied/s/b").read_bytes() == b"bytes"
        assert dav.carry("MOVE", f"{folder}/f", f"{mount}/copied/f") == 201
        assert (tmp_path / "copied/f").read_bytes() == b"bytes" and admin.names(folder) == ["d"]
        assert dav.carry("MOVE", f"{folder}/d", f"{mount}/copied") == 204
        assert sorted(child.name for child in (tmp_path / "copied").iterdir()) == ["a", "s"]
        assert admin.names(folder) == []


@pytest.mark.parametrize(
    ("destination", "status"),
    [
        ("http://example.com/dav/x", 502), ("{address}/d/x", 502), ("{address}/dav/../x", 403), ("ftp://x/dav/x", 502),
        ("{address}/dav/files/%ff", 400), ("{address}/dav/files/a%2fb", 400), ("nothing", 400), ("", 400),
        ("{address}/dav/files/%2e%2e/%2e%2e/x", 403), ("{address}/dav/x?y", 400), ("http://[::1/dav/x", 400),
    ],
)  # fmt: skip
def test_a_destination_that_leads_elsewhere_moves_nothing(
    dav: Dav, admin: Client, folder: str, destination: str, status: int
) -> None:
    admin.put(f"{folder}/f", b"x")
    for method in ("COPY", "MOVE"):
        assert dav.status(method, f"{folder}/f", destination=destination.format(address=dav.address)) == status
    assert admin.names(folder) == ["f"]


def test_each_verb_needs_its_own_right(service: Service, admin: Client, people: People, folder: str) -> None:
    verbs = {
        "PUT": WRITE, "MKCOL": WRITE, "PROPPATCH": WRITE, "LOCK": WRITE, "DELETE": DELETE, "COPY": COPY, "MOVE": MOVE,
        "RENAME": RENAME,
    }  # fmt: skip

    def use(dav: Dav, verb: str) -> int:
        admin.ok("/api/fs/remove", dir=folder, names=["a", "b", "d"])
        admin.put(f"{folder}/a", b"x")
        admin.ok("/api/fs/mkdir", path=f"{folder}/d")
        if verb in ("COPY", "MOVE"):
            return dav.carry(verb, f"{folder}/a", f"{folder}/d/a")
        if verb == "RENAME":
            return dav.carry("MOVE", f"{folder}/a", f"{folder}/b")
        path = f"{folder}/b" if verb in ("PUT", "MKCOL") else f"{folder}/a"
        if verb == "LOCK":
            answer = dav.send("LOCK", path, LOCK.format(scope="exclusive"))
            dav.send("UNLOCK", path, lock_token=answer.headers.get("lock-token", "<x>"))
            return answer.status_code
        return dav.status(verb, path, PATCH if verb == "PROPPATCH" else None)

    door = EVERYTHING & ~(WRITE | RENAME | MOVE | COPY | DELETE)
    only = {right: Dav(service, people.new(door | right)) for right in set(verbs.values())}
    without = {right: Dav(service, people.new(EVERYTHING & ~right)) for right in set(verbs.values())}
    assert {verb: use(only[right], verb) < 300 for verb, right in verbs.items()} == dict.fromkeys(verbs, True)
    assert {verb: use(without[right], verb) for verb, right in verbs.items()} == dict.fromkeys(verbs, 403)


def test_properties_are_kept_and_go_where_the_entry_goes(dav: Dav, admin: Client, folder: str) -> None:
    admin.put(f"{folder}/d/f", b"x")
    assert dav.status("PROPPATCH", f"{folder}/d/f", PATCH) == dav.status("PROPPATCH", f"{folder}/d", PATCH) == 207
    assert dav.find(f"{folder}/d", COLOR, depth="1") == {
        f"/dav{folder}/d/": {COLOR: VALUE}, f"/dav{folder}/d/f": {COLOR: VALUE},
    }  # fmt: skip
    assert 'a="1"' in dav.send("PROPFIND", f"{folder}/d/f", depth="0").text
    dav.carry("COPY", f"{folder}/d", f"{folder}/e")
    dav.carry("MOVE", f"{folder}/d", f"{folder}/m")
    for name in ("e", "m"):
        assert dav.find(f"{folder}/{name}/f", COLOR) == {f"/dav{folder}/{name}/f": {COLOR: VALUE}}
    dav.status("DELETE", f"{folder}/m")
    admin.put(f"{folder}/m/f", b"x")
    admin.put(f"{folder}/d/f", b"x")
    assert dav.find(f"{folder}/m/f", COLOR) == {f"/dav{folder}/m/f": {}}
    assert dav.find(f"{folder}/d/f", COLOR) == {f"/dav{folder}/d/f": {}}


def test_proppatch_of_live_property_changes_nothing(dav: Dav, folder: str) -> None:
    body = PATCH.replace("<color", "<D:getetag/><color")
    answer = dav.send("PROPPATCH", folder, body).text
    assert "cannot-modify-protected-property" in answer and "424" in answer
    assert dav.find(folder, COLOR) == {f"/dav{folder}/": {}}
    assert dav.status("PROPPATCH", folder, PATCH.replace("set", "remove")) == 207
    for wrong in (b"", b"<x/>", b'<propertyupdate xmlns="DAV:"/>'):
        assert dav.status("PROPPATCH", folder, wrong) == 400


def test_a_file_comes_as_the_storages_policy_says(dav: Dav, admin: Client, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"bytes")
    proxied = {"webdav_policy": "use_proxy_url", "down_proxy_url": "https://proxy.example"}
    with fixtures.local(admin, tmp_path, **proxied) as mount:
        answer = dav.send("GET", f"{mount}/f")
        assert answer.status_code == 302
        assert answer.headers["location"].startswith(f"https://proxy.example{mount}/f?sign=")
    with fixtures.local(admin, tmp_path, **(proxied | {"webdav_policy": "native_proxy"})) as mount:
        assert dav.send("GET", f"{mount}/f").content == b"bytes"
    listed = {"url_structure": "f:https://example.com/f"}
    with fixtures.mount(admin, "UrlTree", addition=listed, webdav_policy="302_redirect") as mount:
        answer = dav.send("GET", f"{mount}/f")
        assert (answer.status_code, answer.headers["location"]) == (302, "https://example.com/f")
