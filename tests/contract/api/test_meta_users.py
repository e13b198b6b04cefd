"""Per-path rules on writing, and on readers and writers by name."""

from __future__ import annotations

from tests.contract.api import fixtures
from tests.contract.api.accounts import People, get_data, get_refusal
from tests.contract.api.meta_client import (
    UNREADABLE,
    Callers,
    get_file,
    list_folder,
    list_visible,
    make_callers,
    put_files,
    try_to_carry,
)
from tests.support.service import Client

DENIED = (403, "permission denied")


# Writing
def test_write_opens_a_folder_for_new_things_without_the_right(admin: Client, accounts: People, folder: str) -> None:
    put_files(admin, folder, "in/sub/x")
    inside = f"{folder}/in"
    with make_callers(admin, accounts, 0) as two, fixtures.meta(admin, inside, write=True):
        for number, client in enumerate(two):
            data = get_data(list_folder(client, inside))
            assert (data["write"], data["write_content_bypass"]) == (True, True)
            assert get_data(client.put(f"{inside}/{number}.txt", b"new")) is None
            assert get_data(client.post("/api/fs/mkdir", path=f"{inside}/d{number}")) is None
            assert get_refusal(client.put(f"{inside}/sub/y", b"new")) == DENIED
            assert get_refusal(client.put(f"{folder}/y", b"new")) == DENIED
            assert get_refusal(client.post("/api/fs/mkdir", path=f"{inside}/sub/y")) == DENIED
            data = get_data(list_folder(client, f"{inside}/sub"))
            assert (data["write"], data["write_content_bypass"]) == (False, False)
    assert admin.names(inside) == ["0.txt", "1.txt", "d0", "d1", "sub"]
    assert (admin.names(f"{inside}/sub"), admin.names(folder)) == (["x"], ["in"])


def test_w_sub_opens_every_folder_below(admin: Client, accounts: People, folder: str) -> None:
    put_files(admin, folder, "in/sub/x")
    with make_callers(admin, accounts, 0) as two, fixtures.meta(admin, f"{folder}/in", write=True, w_sub=True):
        for number, client in enumerate(two):
            assert get_data(client.put(f"{folder}/in/sub/{number}", b"new")) is None
            assert get_data(list_folder(client, f"{folder}/in/sub"))["write_content_bypass"] is True
            assert get_refusal(client.put(f"{folder}/{number}", b"new")) == DENIED
    assert admin.names(f"{folder}/in/sub") == ["0", "1", "x"]


def test_w_sub_without_write_opens_nothing(admin: Client, accounts: People, folder: str) -> None:
    with make_callers(admin, accounts, 0) as two, fixtures.meta(admin, folder, w_sub=True):
        for client in two:
            assert get_refusal(client.put(f"{folder}/x", b"new")) == DENIED
    assert admin.names(folder) == []


def test_write_stands_in_for_no_other_right(admin: Client, accounts: People, folder: str) -> None:
    put_files(admin, folder, "a.txt", "to/x")
    with make_callers(admin, accounts, 0) as two, fixtures.meta(admin, folder, write=True, w_sub=True):
        for client in two:
            pair = {"src_dir": folder, "dst_dir": f"{folder}/to", "names": ["a.txt"]}
            for answer in (
                client.post("/api/fs/rename", path=f"{folder}/a.txt", name="b.txt"),
                client.post("/api/fs/remove", dir=folder, names=["a.txt"]),
                client.post("/api/fs/move", **pair),
                client.post("/api/fs/copy", **pair),
            ):
                assert get_refusal(answer) == DENIED
    assert admin.names(folder) == ["a.txt", "to"]


def test_rule_write_does_not_apply_to_folder_with_own_rule(admin: Client, accounts: People, folder: str) -> None:
    put_files(admin, folder, "in/x")
    with make_callers(admin, accounts, 0) as two, fixtures.meta(admin, folder, write=True, w_sub=True):
        with fixtures.meta(admin, f"{folder}/in"):
            for client in two:
                assert get_refusal(client.put(f"{folder}/in/y", b"new")) == DENIED
    assert admin.names(f"{folder}/in") == ["x"]


def test_a_listing_may_be_refreshed_only_by_who_may_write_there(admin: Client, accounts: People, folder: str) -> None:
    with make_callers(admin, accounts, 0) as two:
        for client in two:
            refused = get_refusal(client.post("/api/fs/list", path=folder, refresh=True))
            assert refused == (403, "Refresh without permission")
        with fixtures.meta(admin, folder, write=True):
            for client in two:
                assert get_data(client.post("/api/fs/list", path=folder, refresh=True))["total"] == 0


# Readers and writers by name
def test_read_users_excludes_even_the_administrator(admin: Client, folder: str, two: Callers) -> None:
    put_files(admin, folder, "in/a.txt", "in/sub/b.txt")
    inside = f"{folder}/in"
    for chosen, left_out in ((two.user_id, two.guest), (two.guest_id, two.user)):
        let_in = two.user if left_out is two.guest else two.guest
        with fixtures.meta(admin, inside, read_users=[chosen], read_users_sub=True):
            assert list_visible(list_folder(let_in, inside)) == ["a.txt", "sub"]
            assert get_data(get_file(let_in, f"{inside}/sub/b.txt"))["name"] == "b.txt"
            assert list_visible(list_folder(let_in, folder)) == ["in"]
            for client in (left_out, admin):
                for path in (inside, f"{inside}/sub", f"{inside}/a.txt", f"{inside}/sub/b.txt"):
                    assert get_refusal(get_file(client, path)) == UNREADABLE
                assert get_refusal(list_folder(client, inside)) == UNREADABLE
                data = get_data(list_folder(client, folder))
                assert (data["content"] or [], data["total"]) == ([], 0)
                answers = try_to_carry(client, folder, "in", folder)
                assert {way for way, answer in answers.items() if answer["code"] == 200} <= {"regex_rename"}
    assert admin.names(folder) == ["in"]


def test_read_users_without_its_sub_flag_guards_the_folder_itself_only(
    admin: Client, folder: str, two: Callers
) -> None:
    put_files(admin, folder, "in/a.txt", "in/sub/b.txt")
    with fixtures.meta(admin, f"{folder}/in", read_users=[two.user_id]):
        assert get_refusal(list_folder(two.guest, f"{folder}/in")) == UNREADABLE
        assert list_visible(list_folder(two.guest, f"{folder}/in/sub")) == ["b.txt"]
        assert get_data(get_file(two.guest, f"{folder}/in/a.txt"))["name"] == "a.txt"
        assert list_visible(list_folder(two.user, f"{folder}/in")) == ["a.txt", "sub"]


def test_an_empty_list_of_readers_or_writers_is_none(admin: Client, folder: str, two: Callers) -> None:
    rule = {"read_users": [], "read_users_sub": True, "write_users": [], "write_users_sub": True}
    with fixtures.meta(admin, folder, **rule):
        for number, client in enumerate(two):
            assert list_folder(client, folder)["code"] == 200
            get_data(client.put(f"{folder}/{number}", b"x"))
    assert admin.names(folder) == ["0", "1"]


def test_read_users_come_before_the_password_and_the_bit_that_skips_it(
    admin: Client, accounts: People, folder: str
) -> None:
    with make_callers(admin, accounts, 0xFFFF) as two:
        with fixtures.meta(admin, folder, read_users=[two.user_id], password="x", p_sub=True):
            assert get_refusal(list_folder(two.guest, folder, "x")) == UNREADABLE
            assert list_folder(two.user, folder)["code"] == 200


def test_write_users_refuses_every_change_by_those_it_does_not_name(admin: Client, folder: str, two: Callers) -> None:
    put_files(admin, folder, "in/a.txt", "in/sub/b.txt", "out/c.txt")
    inside, outside = f"{folder}/in", f"{folder}/out"
    with fixtures.meta(admin, inside, write_users=[two.user_id], write_users_sub=True, write=True, w_sub=True):
        for client in (two.guest, admin):
            for place in (inside, f"{inside}/sub"):
                assert get_data(list_folder(client, place))["write"] is False
                assert get_refusal(client.put(f"{place}/new", b"x")) == DENIED
                assert get_refusal(client.post("/api/fs/mkdir", path=f"{place}/new")) == DENIED
            pair = {"src_dir": inside, "dst_dir": outside, "names": ["a.txt"]}
            into = {"src_dir": outside, "dst_dir": inside, "names": ["c.txt"]}
            for answer in (
                client.post("/api/fs/rename", path=f"{inside}/a.txt", name="b"),
                client.post("/api/fs/remove", dir=inside, names=["a.txt"]),
                client.post("/api/fs/move", **pair),
                client.post("/api/fs/move", **into),
                client.post("/api/fs/copy", **into),
                client.post("/api/fs/recursive_move", src_dir=inside, dst_dir=outside),
                client.post("/api/fs/regex_rename", src_dir=inside, src_name_regex="a", new_name_regex="b"),
            ):
                assert get_refusal(answer) == DENIED
        assert get_data(list_folder(two.user, inside))["write"] is True
        get_data(two.user.put(f"{inside}/sub/new", b"x"))
        get_data(two.user.post("/api/fs/rename", path=f"{inside}/a.txt", name="b.txt"))
    assert (admin.names(inside), admin.names(outside)) == (["b.txt", "sub"], ["c.txt"])


def test_write_users_without_its_sub_flag_guards_the_folder_itself_only(
    admin: Client, folder: str, two: Callers
) -> None:
    put_files(admin, folder, "in/sub/b.txt")
    with fixtures.meta(admin, f"{folder}/in", write_users=[two.user_id]):
        assert get_refusal(two.guest.put(f"{folder}/in/new", b"x")) == DENIED
        get_data(two.guest.put(f"{folder}/in/sub/new", b"x"))
    assert admin.names(f"{folder}/in/sub") == ["b.txt", "new"]
