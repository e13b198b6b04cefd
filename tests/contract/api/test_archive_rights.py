"""Archives over HTTP: signatures of members, the right to look into archives, passwords of folders."""

from __future__ import annotations

import httpx
import pytest

from tests.contract.api import fixtures
from tests.contract.api.archive_client import put_file, read_answer
from tests.contract.api.download_client import make_signature, read_issued, read_key
from tests.support.service import Client, Service
from tests.unit.archives.packing import FILES, zipped

READ_ARCHIVES = 1 << 12


@pytest.mark.parametrize("route", ["/d{}", "/p{}", "/ae{}"])
def test_a_signature_is_for_files_or_for_members_never_for_both(
    service: Service, admin: Client, folder: str, route: str
) -> None:
    path = put_file(service, folder, "x.zip", zipped(FILES))
    files, members = read_key(admin), read_key(admin, "links into archives")
    sign = admin.ok("/api/fs/archive/meta", path=path)["sign"]
    assert sign == make_signature(members, path, issued=read_issued(sign))
    address = service.address + route.format(path)
    right, wrong = make_signature(files, path), make_signature(members, path)
    if route.startswith("/ae"):
        right, wrong = wrong, right
    others = (wrong, "", make_signature(b"", path), make_signature(members, f"{path}/a"))
    for sign, status in ((right, 200), *((other, 401) for other in others)):
        assert httpx.get(address, params={"inner": "empty", "sign": sign}, timeout=60).status_code == status


def test_the_key_of_members_changes_with_the_token(service: Service, admin: Client, folder: str) -> None:
    path = put_file(service, folder, "x.zip", zipped(FILES))
    before = admin.ok("/api/fs/archive/meta", path=path)
    query = {"inner": "a/b.txt", "sign": before["sign"]}
    assert admin.http.get(before["raw_url"], params=query).status_code == 200
    admin.ok("/api/admin/setting/reset_token")
    assert admin.http.get(before["raw_url"], params=query).status_code == 401
    after = admin.ok("/api/fs/archive/meta", path=path)
    assert admin.http.get(after["raw_url"], params=query | {"sign": after["sign"]}).content == FILES["a/b.txt"]


def test_where_links_need_no_signature_members_need_none(service: Service, admin: Client, folder: str) -> None:
    path = put_file(service, folder, "x.zip", zipped(FILES))
    with fixtures.settings(admin, sign_all="false"):
        meta = admin.ok("/api/fs/archive/meta", path=path)
        assert meta["sign"] == ""
        assert httpx.get(meta["raw_url"], params={"inner": "a/b.txt"}, timeout=60).content == FILES["a/b.txt"]


def test_the_right_to_look_into_archives_is_needed(service: Service, admin: Client, folder: str) -> None:
    put_file(service, folder, "x.zip", zipped(FILES))
    for verb in ("meta", "list"):
        with fixtures.user(service, admin, fixtures.ALL_RIGHTS & ~READ_ARCHIVES, folder) as without:
            assert read_answer(without.post(f"/api/fs/archive/{verb}", path="/x.zip")) == (
                403,
                "permission denied",
                None,
            )
        with fixtures.user(service, admin, READ_ARCHIVES, folder) as reader:
            assert reader.post(f"/api/fs/archive/{verb}", path="/x.zip")["code"] == 200
        assert service.anonymous().post(f"/api/fs/archive/{verb}", path=f"{folder}/x.zip")["code"] == 401


def test_the_password_of_a_folder_is_asked_for(service: Service, admin: Client, folder: str) -> None:
    put_file(service, folder, "x.zip", zipped(FILES))
    with (
        fixtures.meta(admin, folder, password="door", p_sub=True),
        fixtures.user(service, admin, READ_ARCHIVES) as reader,
    ):
        for verb in ("meta", "list"):
            path = f"{folder}/x.zip"
            answer = reader.post(f"/api/fs/archive/{verb}", path=path)
            assert read_answer(answer) == (403, "password is incorrect or you have no permission", None)
            assert reader.post(f"/api/fs/archive/{verb}", path=path, password="door")["code"] == 200
