"""The scope of a lock, the callers that see it, and its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.contract.api import fixtures
from tests.contract.api.accounts import People, Person
from tests.contract.api.dav_client import EVERYTHING, LOCK, Dav
from tests.support.service import Client, Service

NOBODY = [10**9]
SEE_HIDDEN = 1
BODY = LOCK.format(scope="exclusive")
WRITABLE = {"write_conflict_policy": "first", "put_conflict_policy": "first"}


def update(admin: Client, person: Person, **fields: Any) -> None:
    """Change an account."""
    admin.ok("/api/admin/user/update", **(person.row(admin) | {"password": ""} | fields))


@pytest.mark.parametrize(
    ("path", "rule", "permission"),
    [
        ("", {"hide": "^secret$"}, EVERYTHING | SEE_HIDDEN),
        ("/sub", {"read_users": NOBODY, "read_users_sub": True}, EVERYTHING),
        ("/sub", {"password": "sesame", "p_sub": True}, EVERYTHING),
    ],
    ids=["hidden", "readers", "password"],
)
def test_locked_answer_names_no_file_that_caller_does_not_see(
    service: Service, admin: Client, people: People, dav: Dav, folder: str, path: str, rule: dict[str, Any],
    permission: int,
) -> None:  # fmt: skip
    """B2 of issue 25: the answer named the locked file."""
    admin.put(f"{folder}{path}/secret", b"x")
    admin.put(f"{folder}/plain", b"x")
    holder = Dav(service, people.new(permission))
    holder.lock(f"{folder}{path}/secret")
    for send in (lambda: dav.send("DELETE", folder), lambda: dav.send("LOCK", folder, BODY)):
        open_answer = send()
        assert open_answer.status_code == 423 and f"/dav{folder}{path}/secret" in open_answer.text
        with fixtures.meta(admin, f"{folder}{path}", **rule):
            answer = send()
            assert answer.status_code == 423 and "secret" not in answer.text and "/sub" not in answer.text
    assert dav.status("PUT", f"{folder}/plain", b"y") == 204


def test_lock_on_a_name_that_its_user_may_not_read_makes_no_other_file(dav: Dav, admin: Client, folder: str) -> None:
    admin.put(f"{folder}/sub/taken.txt", b"x")
    with fixtures.meta(admin, f"{folder}/sub", read_users=NOBODY, read_users_sub=True):
        assert [dav.status("LOCK", f"{folder}/sub/{name}", BODY) for name in ("taken.txt", "free.txt")] == [201, 201]
    assert admin.names(f"{folder}/sub") == ["free.txt", "taken.txt"]


def test_deep_lock_binds_only_where_its_user_may_write(
    service: Service, admin: Client, people: People, folder: str
) -> None:
    """B3 of issue 25: a lock of infinite depth on one's root stopped every writer."""
    for path in ("own/f", "shared/f"):
        admin.put(f"{folder}/{path}", b"x")
    holder, writer = people.new(EVERYTHING, base_path=folder), people.new(EVERYTHING, base_path=folder)
    other = Dav(service, writer)
    with fixtures.meta(admin, f"{folder}/own", write_users=[writer.id], write_users_sub=True):
        token = Dav(service, holder).lock("/")
        assert other.status("PUT", "/own/f", b"y") == 204
        assert other.status("PUT", "/own/g", b"y") == 201
        assert other.status("LOCK", "/own/f", BODY) == 200
        assert other.status("PUT", "/shared/f", b"y") == 423
        shown = other.find("/own", "lockdiscovery", depth="0") | other.find("/shared", "lockdiscovery", depth="1")
        assert [href for href, properties in shown.items() if properties["lockdiscovery"]] == [
            "/dav/shared/", "/dav/shared/f",
        ]  # fmt: skip
        assert Dav(service, holder).status("UNLOCK", "/", lock_token=f"<{token}>") == 204


def test_deep_lock_is_taken_beside_lock_where_its_user_may_not_write(
    service: Service, admin: Client, people: People, folder: str
) -> None:
    admin.put(f"{folder}/own/f", b"x")
    holder, writer = people.new(EVERYTHING, base_path=folder), people.new(EVERYTHING, base_path=folder)
    with fixtures.meta(admin, f"{folder}/own", write_users=[writer.id], write_users_sub=True):
        Dav(service, writer).lock("/own/f")
        Dav(service, holder).lock("/")
    assert Dav(service, people.new(EVERYTHING)).status("PUT", f"{folder}/own/f", b"y") == 423


@pytest.mark.parametrize("end", ["disabled", "deleted", "base path", "right to write", "right to use WebDAV"])
def test_lock_ends_with_account_and_right(
    service: Service, admin: Client, people: People, dav: Dav, folder: str, end: str
) -> None:
    """B3 of issue 25: a lock outlived the account."""
    admin.put(f"{folder}/f", b"x")
    holder = people.new(EVERYTHING)
    Dav(service, holder).lock(f"{folder}/f")
    assert dav.status("PUT", f"{folder}/f", b"y") == 423
    if end == "deleted":
        admin.ok("/api/admin/user/delete", params={"id": holder.id})
    else:
        changes = {
            "disabled": {"disabled": True}, "base path": {"base_path": f"{folder}/else"},
            "right to write": {"permission": EVERYTHING & ~fixtures.WRITE},
            "right to use WebDAV": {"permission": EVERYTHING & ~(1 << 9)},
        }  # fmt: skip
        update(admin, holder, **changes[end])
    assert dav.find(f"{folder}/f", "lockdiscovery") == {f"/dav{folder}/f": {"lockdiscovery": ""}}
    assert dav.status("PUT", f"{folder}/f", b"y") == 204
    assert dav.status("LOCK", f"{folder}/f", BODY) == 200


def test_refresh_without_right_is_refused(service: Service, admin: Client, people: People, folder: str) -> None:
    admin.put(f"{folder}/f", b"x")
    holder = people.new(EVERYTHING)
    dav = Dav(service, holder)
    condition = {"if": f"(<{dav.lock(f'{folder}/f')}>)"}
    assert dav.status("LOCK", f"{folder}/f", **condition) == 200
    with fixtures.meta(admin, folder, write_users=NOBODY, write_users_sub=True):
        assert dav.status("LOCK", f"{folder}/f", **condition) == 403


def test_lock_binds_at_every_path_of_file(service: Service, admin: Client, dav: Dav, other: Dav, folder: str) -> None:
    """B4 of issue 25: a writable alias went round a lock, and so did a second mount of the same folder."""
    disk = service.data / "files" / Path(folder).name
    admin.put(f"{folder}/sub/f", b"x")
    with (
        fixtures.mount(admin, "Alias", addition={"paths": folder, **WRITABLE}) as alias,
        fixtures.mount(admin, "Alias", addition={"paths": f"a:{alias}\nb:/files", **WRITABLE}) as names,
        fixtures.local(admin, disk) as twin,
        fixtures.local(admin, disk) as triplet,
    ):
        aliases = [f"{folder}/sub", f"{alias}/sub", f"{names}/a/sub"]
        for paths in (aliases, [f"{twin}/sub", f"{triplet}/sub"]):
            for locked in paths:
                for target in (locked, f"{locked}/f"):
                    token = dav.lock(target)
                    assert {other.status("PUT", f"{path}/f", b"y") for path in paths} == {423}, target
                    assert {other.status("LOCK", f"{path}/f", BODY) for path in paths} == {423}, target
                    assert {other.status("DELETE", path) for path in paths} == {423}, target
                    shown = {len(other.find(f"{path}/f", "lockdiscovery").popitem()[1]) for path in paths}
                    assert shown == {1}
                    assert dav.status("PUT", f"{paths[-1]}/f", b"z", **{"if": f"(<{token}>)"}) == 204
                    assert dav.status("UNLOCK", target, lock_token=f"<{token}>") == 204
        token = dav.lock(names)
        assert other.status("PUT", f"{folder}/sub/f", b"y") == 423, "the list of names covers what they show"
        assert dav.status("UNLOCK", names, lock_token=f"<{token}>") == 204
    assert other.status("PUT", f"{folder}/sub/f", b"y") == 204


def test_lock_on_virtual_folder_covers_storages_below(dav: Dav, other: Dav, admin: Client, tmp_path: Path) -> None:
    with fixtures.local(admin, tmp_path, path=f"/{tmp_path.name}-top/{tmp_path.parent.name}/disk") as mount:
        top = f"/{tmp_path.name}-top"
        below = other.lock(f"{mount}/f")
        assert dav.status("LOCK", top, BODY) == 423
        assert other.status("UNLOCK", f"{mount}/f", lock_token=f"<{below}>") == 204
        token = dav.lock(top)
        assert [other.status("PUT", f"{mount}/f", b"x"), other.status("LOCK", mount, BODY)] == [423, 423]
        assert dav.status("UNLOCK", mount, lock_token=f"<{token}>") == 204
        assert other.status("PUT", f"{mount}/f", b"x") == 204
