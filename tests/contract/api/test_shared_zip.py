"""Shared folders as ZIP files, without an account."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from io import BytesIO
from zipfile import ZipFile

import pytest

from tests.contract.api import fixtures
from tests.contract.api.test_shared_files import Shares
from tests.support.service import Client, Service


@pytest.fixture
def offered(service: Service, admin: Client, folder: str) -> Iterator[Shares]:
    """A user with a folder and no share link yet."""
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS) as owner:
        offered = Shares(service, admin, owner, folder)
        yield offered
        offered.visitor.http.close()


def fetch(offered: Shares, path: str, **query: str | list[str]) -> tuple[int, dict[str, bytes]]:
    """The status, and the files and folders of the archive."""
    answer = offered.visitor.http.get(f"/sd/{path}", params=query | {"zip": ""})
    if answer.status_code != 200:
        return answer.status_code, {}
    assert int(answer.headers["content-length"]) == len(answer.content)
    with ZipFile(BytesIO(answer.content)) as file:
        assert file.testzip() is None
        return 200, {name: file.read(name) for name in file.namelist()}


def test_shared_folder_is_one_archive(offered: Shares) -> None:
    id = offered.create()
    status, files = fetch(offered, f"{id}/")
    assert (status, sorted(files)) == (200, ["a.txt", "sub/", "sub/b.txt", "x.zip"])
    assert fetch(offered, f"{id}/sub") == (200, {"b.txt": b"more letters"})
    assert fetch(offered, f"{id}/../secret.txt")[0] in (403, 404, 500)
    assert fetch(offered, f"{id}/a.txt")[0] == 500
    head = offered.visitor.http.head(f"/sd/{id}", params={"zip": ""})
    assert 'filename="shared.zip"' in head.headers["content-disposition"]


def test_several_shared_entries_are_one_archive(offered: Shares) -> None:
    (offered.disk / "other").mkdir()
    shutil.copy(offered.disk / "a.txt", offered.disk / "other/a.txt")
    id = offered.create("sub", "a.txt", "other/a.txt")
    expected = {"sub/": b"", "sub/b.txt": b"more letters", "a.txt": b"letters", "a (2).txt": b"letters"}
    assert fetch(offered, id) == (200, expected)
    assert fetch(offered, f"{id}/sub") == (200, {"b.txt": b"more letters"})


def test_selection_in_a_share_is_one_archive(offered: Shares) -> None:
    id, several = offered.create(), offered.create("sub", "a.txt", "x.zip")
    expected = {"sub/": b"", "sub/b.txt": b"more letters", "a.txt": b"letters"}
    assert fetch(offered, id, names=["sub", "a.txt"]) == (200, expected)
    assert fetch(offered, several, names=["sub", "a.txt"]) == (200, expected)
    assert fetch(offered, f"{several}/sub", names="b.txt") == (200, {"b.txt": b"more letters"})
    head = offered.visitor.http.head(f"/sd/{id}/", params={"zip": "", "names": "sub"})
    assert 'filename="sub.zip"' in head.headers["content-disposition"]


@pytest.mark.parametrize("name", ["..", "../secret.txt", "..\\secret.txt", "/", "", "sub/../../secret.txt"])
def test_selection_in_a_share_leads_nowhere(offered: Shares, name: str) -> None:
    for path in (offered.create(), offered.create("sub", "a.txt")):
        answer = offered.visitor.http.get(f"/sd/{path}/", params={"zip": "", "names": name})
        assert answer.status_code in (400, 403) and b"a secret" not in answer.content, answer.content
        assert offered.folder.encode() not in answer.content


def test_selection_in_a_share_takes_no_hidden_name(offered: Shares) -> None:
    id = offered.create()
    with fixtures.meta(offered.admin, offered.folder, hide="a.txt", h_sub=True):
        status, files = fetch(offered, id, names=["a.txt", "x.zip", "secret.txt"])
    assert status == 200 and "x.zip" in files
    assert {files.get("a.txt"), files.get("secret.txt")} == {None}
    assert not any(content == b"letters" for content in files.values())


def test_archive_needs_the_password_of_the_share(offered: Shares) -> None:
    id = offered.create(pwd="key")
    assert fetch(offered, id)[0] == 403
    assert fetch(offered, id, pwd="other")[0] == 403
    assert fetch(offered, id, pwd="key")[0] == 200


def test_archive_has_nothing_that_the_owner_may_not_read(offered: Shares) -> None:
    id = offered.create()
    with fixtures.meta(offered.admin, f"{offered.folder}/sub", read_users=[1], read_users_sub=True):
        status, files = fetch(offered, id)
        assert (status, sorted(files)) == (200, ["a.txt", "x.zip"])
    offered.change_owner(disabled=True)
    assert fetch(offered, id)[0] == 404
