"""Effects of the options of Local storages, and of the kinds of files in the settings, on listings."""

from __future__ import annotations

import io
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from PIL import Image

from tests.contract.api import fixtures
from tests.support.service import Client


def test_a_folder_is_as_large_as_what_it_holds_where_the_storage_wants_it(admin: Client, tmp_path: Path) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "e" / "f").write_bytes(bytes(1000))
    for is_measured, size in ((True, 1000), (False, 0)):
        with fixtures.local(admin, tmp_path, addition={"directory_size": is_measured}) as mounted:
            (row,) = admin.ok("/api/fs/list", path=mounted)["content"]
            assert (row["name"], row["size"]) == ("d", size)


def test_dot_names_are_listed_by_option_and_always_found(admin: Client, tmp_path: Path) -> None:
    (tmp_path / ".hidden").write_text("x")
    (tmp_path / "shown").write_text("x")
    for is_shown, names in ((True, [".hidden", "shown"]), (False, ["shown"])):
        with fixtures.local(admin, tmp_path, addition={"show_hidden": is_shown}) as mounted:
            assert admin.names(mounted) == names
            assert admin.ok("/api/fs/get", path=f"{mounted}/.hidden")["name"] == ".hidden"


def test_new_folders_have_the_permissions_of_the_storage(admin: Client, tmp_path: Path) -> None:
    for permissions in ("700", "710"):
        with fixtures.local(admin, tmp_path, addition={"mkdir_perm": permissions}) as mounted:
            admin.ok("/api/fs/mkdir", path=f"{mounted}/{permissions}")
        assert f"{(tmp_path / permissions).stat().st_mode & 0o777:o}" == permissions


def test_thumbnails_are_kept_in_the_folder_of_the_storage(admin: Client, tmp_path: Path) -> None:
    root, cache = tmp_path / "root", tmp_path / "kept"
    root.mkdir()
    picture = io.BytesIO()
    Image.new("RGB", (300, 200), (200, 10, 10)).save(picture, "PNG")
    (root / "a.png").write_bytes(picture.getvalue())
    cache.mkdir()
    with fixtures.local(admin, root, addition={"thumbnail": True, "thumb_cache_folder": str(cache)}) as mounted:
        thumb = urlsplit(admin.ok("/api/fs/list", path=mounted)["content"][0]["thumb"])
        first = admin.http.get(f"{thumb.path}?{thumb.query}")
        assert first.status_code == 200
        assert [file.read_bytes() for file in cache.iterdir()] == [first.content]
        assert admin.http.get(f"{thumb.path}?{thumb.query}").content == first.content


@pytest.mark.parametrize(
    ("setting", "code"), [("video_types", 2), ("audio_types", 3), ("text_types", 4), ("image_types", 5)]
)
def test_each_list_of_extensions_gives_its_type(admin: Client, folder: str, setting: str, code: int) -> None:
    fixtures.fill(admin, folder, "a.oddext")
    with fixtures.settings(admin, **{setting: "oddext"}):
        assert admin.ok("/api/fs/list", path=folder)["content"][0]["type"] == code


def test_parameters_that_are_to_be_ignored_are_not_handed_on(admin: Client) -> None:
    with fixtures.mount(admin, "UrlTree", addition={"url_structure": "f.bin:4:https://example.com/f.bin"}) as mounted:
        query = {"sign": admin.ok("/api/fs/get", path=f"{mounted}/f.bin")["sign"], "a": "1", "b": "2"}
        values = {"forward_direct_link_params": "true", "ignore_direct_link_params": "sign,b"}
        with fixtures.settings(admin, **values):
            answer = admin.http.get(f"/d{mounted}/f.bin", params=query, follow_redirects=False)
        assert answer.headers["location"] == "https://example.com/f.bin?a=1"
