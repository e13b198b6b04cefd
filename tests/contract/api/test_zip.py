"""Selections and folders as ZIP files over HTTP."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from zipfile import ZIP_STORED, ZipFile

import httpx
import pytest

from mangrove.web import zip_links
from tests.contract.api import fixtures
from tests.support.service import Client, Service

DIALECTS = ["", "/openlist"]
FILES = {"a.txt": b"first", "sub/é 你.txt": b"second", "sub/empty.txt": b"", "sub/large.bin": os.urandom(3 << 20)}


@pytest.fixture
def packed(service: Service, folder: str) -> Iterator[str]:
    """A folder with FILES, an empty folder and a link to a folder."""
    root = fixtures.disk(service, folder)
    for name, content in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
        os.utime(root / name, (1_600_000_000, 1_600_000_000))
    (root / "hollow").mkdir()
    yield folder


def fetch(client: Client, folder: str, names: list[str] | None = None, password: str = "") -> httpx.Response:
    """Request a link, and the archive without an account."""
    url = client.ok("/api/fs/zip", dir=folder, names=names or [], password=password)["url"]
    return httpx.get(url, trust_env=False, timeout=60)


def read(answer: httpx.Response) -> dict[str, bytes]:
    """Return the files and folders of an archive that is not damaged."""
    assert answer.status_code == 200, answer.text
    assert int(answer.headers["content-length"]) == len(answer.content)
    with ZipFile(BytesIO(answer.content)) as file:
        assert file.testzip() is None
        return {name: file.read(name) for name in file.namelist()}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_folder_is_one_archive_with_its_name(service: Service, admin: Client, packed: str, dialect: str) -> None:
    url = admin.ok(f"{dialect}/api/fs/zip", dir=packed)["url"]
    assert url.startswith(f"{service.address}{dialect}/zip{packed}?sign=")
    answer = httpx.get(url, trust_env=False, timeout=60)
    name = packed.rpartition("/")[2]
    assert f'filename="{name}.zip"' in answer.headers["content-disposition"]
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["accept-ranges"] == "none"
    expected = {f"{name}/{path}": content for path, content in FILES.items()}
    assert read(answer) == expected | {f"{name}/": b"", f"{name}/sub/": b"", f"{name}/hollow/": b""}
    with ZipFile(BytesIO(answer.content)) as file:
        assert file.getinfo(f"{name}/a.txt").date_time == (2020, 9, 13, 12, 26, 40)
        assert {info.compress_type for info in file.infolist()} == {ZIP_STORED}
    head = httpx.head(url, trust_env=False, timeout=60)
    assert (head.status_code, head.headers["content-length"]) == (200, str(len(answer.content)))


def test_selection_has_its_entries_at_the_top(admin: Client, packed: str) -> None:
    assert sorted(read(fetch(admin, packed, ["a.txt", "hollow", "a.txt"]))) == ["a.txt", "hollow/"]
    answer = fetch(admin, packed, ["sub"])
    assert 'filename="sub.zip"' in answer.headers["content-disposition"]
    assert sorted(read(answer)) == ["sub/", "sub/empty.txt", "sub/large.bin", "sub/é 你.txt"]


def test_archive_is_read_by_unzip(admin: Client, packed: str, tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(fetch(admin, packed).content)
    if shutil.which("unzip") is None:
        pytest.skip("unzip is not installed")
    subprocess.run(["unzip", "-tq", tmp_path / "x.zip"], check=True)


def test_entries_that_the_user_may_not_read_are_left_out(
    service: Service, admin: Client, packed: str, tmp_path: Path
) -> None:
    with fixtures.user(service, admin, 0) as user:
        with fixtures.meta(admin, packed, hide="^a\\.txt$"), fixtures.meta(admin, f"{packed}/sub", password="key"):
            names = sorted(read(fetch(user, packed)))
            name = packed.rpartition("/")[2]
            assert names == [f"{name}/", f"{name}/hollow/"]
            assert user.post("/api/fs/zip", dir=packed, names=["a.txt"])["code"] == 403
            assert user.post("/api/fs/zip", dir=f"{packed}/sub")["code"] == 403
            url = user.ok("/api/fs/zip", dir=f"{packed}/sub", password="key")["url"]
            assert "key" not in url
            assert len(read(httpx.get(url, trust_env=False, timeout=60))) == 4


def test_link_follows_the_rights_of_its_user(service: Service, admin: Client, packed: str) -> None:
    with fixtures.user(service, admin, 0) as user:
        url = user.ok("/api/fs/zip", dir=packed, names=["a.txt", "sub"])["url"]
        with fixtures.meta(admin, f"{packed}/sub", password="key"):
            assert sorted(read(httpx.get(url, trust_env=False, timeout=60))) == ["a.txt"]
    assert httpx.get(url, trust_env=False, timeout=60).status_code == 401


def test_link_is_good_for_one_hour_and_its_own_selection(admin: Client, packed: str) -> None:
    url = urlsplit(admin.ok("/api/fs/zip", dir=packed, names=["a.txt"])["url"])
    query = {key: values[0] for key, values in parse_qs(url.query).items()}
    expires = int(query["sign"].rpartition(":")[2])
    assert 0 <= time.time() + zip_links.LINK_SECONDS - expires <= 60
    address = url._replace(query="").geturl()
    for changed in (
        {"sign": query["sign"]},
        {"id": query["id"]},
        query | {"id": query["id"][:-1] + "x"},
        query | {"sign": query["sign"].replace(str(expires), str(expires + 3600))},
    ):
        assert httpx.get(address, params=changed, trust_env=False, timeout=60).status_code == 401
    above = url._replace(path=url.path.rpartition("/")[0], query=url.query).geturl()
    assert httpx.get(above, trust_env=False, timeout=60).status_code == 401


def test_more_than_the_settings_allow_is_refused(admin: Client, packed: str) -> None:
    with fixtures.settings(admin, zip_max_files="6"):
        answer = admin.post("/api/fs/zip", dir=packed)
        assert (answer["code"], answer["message"]) == (413, "more than 6 files and folders are too many for an archive")
    url = admin.ok("/api/fs/zip", dir=packed)["url"]
    with fixtures.settings(admin, zip_max_size="2"):
        answer = admin.post("/api/fs/zip", dir=packed)
        assert (answer["code"], answer["message"]) == (413, "more than 2 MiB are too large for an archive")
        assert httpx.get(url, trust_env=False, timeout=60).status_code == 413
    with fixtures.settings(admin, zip_max_files="7", zip_max_size="4"):
        assert len(read(fetch(admin, packed))) == 7
    with fixtures.settings(admin, zip_max_files="0", zip_max_size="0"):
        assert len(read(fetch(admin, packed))) == 7


def test_missing_names_and_files_are_refused(admin: Client, packed: str) -> None:
    assert admin.post("/api/fs/zip", dir=packed, names=["absent"])["message"] == fixtures.NOTHING_THERE
    assert admin.post("/api/fs/zip", dir=packed, names=["../x"])["code"] == 403
    assert admin.post("/api/fs/zip", dir=packed, names=[""])["code"] == 400
    assert admin.post("/api/fs/zip", dir=f"{packed}/a.txt")["message"] == "this is not a folder"
    assert admin.post("/api/fs/zip", dir=f"{packed}/absent")["code"] == 500


def test_root_of_a_user_has_no_folder_above(service: Service, admin: Client, packed: str) -> None:
    with fixtures.user(service, admin, 0, base_path=f"{packed}/sub") as user:
        answer = fetch(user, "/")
        assert sorted(read(answer)) == ["empty.txt", "large.bin", "é 你.txt"]
