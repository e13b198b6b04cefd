"""Work between every generic driver and a Local storage: copies, moves, downloads, archives, by task."""

from __future__ import annotations

import pytest

from tests.protocol.places import Place, own_names, wait_for_all, wait_for_task
from tests.support import origin
from tests.support.origin import Origin
from tests.unit.archives.packing import FILES, tarred, zipped

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("allow_loopback")]

LARGE = b"".join(number.to_bytes(4) + bytes(1020) for number in range(9 * 1024 + 3))  # of more than one part
WITH_FOLDERS = own_names(*FILES)
EXPECTED_CONTENTS = {name: content if content is None else FILES[name] for name, content in WITH_FOLDERS.items()}


@pytest.mark.parametrize("verb", ["copy", "move"])
@pytest.mark.parametrize("direction", ["to", "from"])
def test_files_and_folders_go_to_another_storage_and_come_back(place: Place, verb: str, direction: str) -> None:
    source, target = (place.beside, place.folder) if direction == "to" else (place.folder, place.beside)
    place.fill("one", "d/", "d/e/", "d/e/two ü", "d/empty/", "stays", folder=source)
    place.admin.put(f"{source}/d/large", LARGE)
    place.admin.put(f"{source}/d/none", b"")
    place.begin(verb, source, target, "one", "d")
    expected = own_names("one", "d/e/two ü", "d/empty/") | {"d/large": LARGE, "d/none": b""}
    assert place.read(target) == expected
    assert place.read(source) == {"stays": b"stays"} | (expected if verb == "copy" else {})


def test_a_copy_merges_replaces_or_leaves_alone(place: Place) -> None:
    place.fill("d/", "d/a", "d/new", folder=place.beside)
    place.fill("d/", "d/kept")
    place.admin.put(f"{place.folder}/d/a", b"old")
    answer = place.admin.post("/api/fs/copy", src_dir=place.beside, dst_dir=place.folder, names=["d"])
    assert (answer["code"], answer["message"]) == (403, "file [d] exists")
    place.begin("copy", place.beside, place.folder, "d", merge=True)
    expected = {"d": None, "d/a": b"old", "d/kept": b"d/kept", "d/new": b"d/new"}
    assert place.read() == expected
    place.begin("copy", place.beside, place.folder, "d", overwrite=True)
    assert place.read() == expected | {"d/a": b"d/a"}


def test_files_go_from_one_storage_of_the_kind_to_another(place: Place) -> None:
    place.fill("d/", "d/e/", "d/e/one", "two")
    with place.mounted_again() as again:
        place.admin.ok("/api/fs/mkdir", path=f"{again}/to")
        place.begin("copy", place.folder, f"{again}/to", "d", "two")
        assert place.read(f"{again}/to") == own_names("d/e/one", "two")
        place.begin("move", f"{again}/to", place.beside, "d", "two")
        assert place.read(f"{again}/to") == {}
    assert place.read(place.beside) == own_names("d/e/one", "two")


def test_a_download_arrives_in_the_storage(place: Place, web: Origin) -> None:
    url = web.at(f"/{place.kind.driver}/%C3%BC%23%2B.bin", origin.file(LARGE))
    body = {"urls": [url], "path": f"{place.folder}/new/deep", "tool": "SimpleHttp"}
    (task,) = place.admin.ok("/openlist/api/fs/add_offline_download", **body)["tasks"]
    wait_for_task(place.admin, "offline_download", task["id"])
    assert {row["error"] for row in wait_for_all(place, "offline_download_transfer")} == {""}
    assert place.read() == {"new": None, "new/deep": None, "new/deep/ü#+.bin": LARGE}


@pytest.mark.parametrize(("name", "archive"), [("x.zip", zipped(FILES)), ("x.tar.gz", tarred(FILES, "w:gz"))])
def test_archives_are_looked_into_and_unpacked(place: Place, name: str, archive: bytes) -> None:
    path = f"{place.folder}/{name}"
    assert place.admin.put(path, archive)["code"] == 200
    meta = place.admin.ok("/api/fs/archive/meta", path=path)
    assert sorted(node["name"] for node in meta["content"]) == ["a", "big.bin", "d", "empty"]
    listed = place.admin.ok("/api/fs/archive/list", path=path, inner_path="/d/e")["content"]
    assert [(row["name"], row["size"]) for row in listed] == [("ü.txt", 2)]
    query = {"inner": "/a/b.txt", "pass": "", "sign": meta["sign"]}
    assert place.admin.http.get(meta["raw_url"], params=query).content == FILES["a/b.txt"]
    place.admin.ok("/api/fs/mkdir", path=f"{place.folder}/to")
    for target in (f"{place.folder}/to", place.beside):
        body = {"src_dir": place.folder, "dst_dir": target, "name": [name], "put_into_new_dir": True}
        (task,) = place.admin.ok("/openlist/api/fs/archive/decompress", **body)["task"]
        wait_for_task(place.admin, "decompress", task["id"])
        assert {row["error"] for row in wait_for_all(place, "decompress_upload")} == {""}
        assert place.read(f"{target}/x") == EXPECTED_CONTENTS


def test_an_archive_of_another_storage_is_unpacked_into_this_one(place: Place) -> None:
    assert place.admin.put(f"{place.beside}/x.zip", zipped(FILES))["code"] == 200
    body = {"src_dir": place.beside, "dst_dir": place.folder, "name": ["x.zip"], "put_into_new_dir": True}
    (task,) = place.admin.ok("/openlist/api/fs/archive/decompress", **body)["task"]
    wait_for_task(place.admin, "decompress", task["id"])
    assert {row["error"] for row in wait_for_all(place, "decompress_upload")} == {""}
    assert place.read(f"{place.folder}/x") == EXPECTED_CONTENTS
