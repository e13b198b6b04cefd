"""Names that per-path rules hide from a normal user and from the guest."""

from __future__ import annotations

from tests.contract.api import fixtures
from tests.contract.api.accounts import People, get_data, get_refusal
from tests.contract.api.meta_client import (
    SEE_HIDDEN,
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


# Hiding
def test_a_hide_line_takes_matching_names_out_of_the_folder(admin: Client, folder: str, two: Callers) -> None:
    put_files(admin, folder, "a.txt", "b.secret", "secret.d/c.txt", "sub/d.secret")
    with fixtures.meta(admin, folder, hide="\\.secret$\n\n^secret\\."):
        for client in two:
            data = get_data(list_folder(client, folder))
            assert sorted(row["name"] for row in data["content"]) == ["a.txt", "sub"]
            assert data["total"] == 2
            assert [row["name"] for row in get_data(client.post("/api/fs/dirs", path=folder))] == ["sub"]
            for path in ("b.secret", "secret.d", "secret.d/c.txt", "not-there.secret"):
                assert get_refusal(get_file(client, f"{folder}/{path}")) == UNREADABLE
            assert get_refusal(list_folder(client, f"{folder}/secret.d")) == UNREADABLE
            assert list_visible(list_folder(client, f"{folder}/sub")) == ["d.secret"]
            assert get_data(get_file(client, f"{folder}/sub/d.secret"))["size"] == len("sub/d.secret")
        assert admin.names(folder) == ["a.txt", "b.secret", "secret.d", "sub"]


def test_h_sub_hides_names_in_every_folder_below(admin: Client, folder: str, two: Callers) -> None:
    put_files(admin, folder, "a.txt", "b.secret", "sub/d.secret", "sub/e.txt", "sub/deep/f.secret")
    with fixtures.meta(admin, folder, hide="secret$", h_sub=True):
        for client in two:
            assert list_visible(list_folder(client, folder)) == ["a.txt", "sub"]
            assert list_visible(list_folder(client, f"{folder}/sub")) == ["deep", "e.txt"]
            assert list_visible(list_folder(client, f"{folder}/sub/deep")) == []
            for path in ("b.secret", "sub/d.secret", "sub/deep/f.secret"):
                assert get_refusal(get_file(client, f"{folder}/{path}")) == UNREADABLE


def test_the_bit_that_sees_hidden_names_sees_them(admin: Client, accounts: People, folder: str) -> None:
    put_files(admin, folder, "a.secret")
    with fixtures.meta(admin, folder, hide="secret"), make_callers(admin, accounts, SEE_HIDDEN) as two:
        for client in two:
            assert list_visible(list_folder(client, folder)) == ["a.secret"]
            assert get_data(get_file(client, f"{folder}/a.secret"))["name"] == "a.secret"


def test_empty_hide_lines_hide_nothing(admin: Client, folder: str, two: Callers) -> None:
    put_files(admin, folder, "a.txt")
    for hide in ("\n", "\n\n  \n", "\r\n", "zzz\r\n\r\n"):
        with fixtures.meta(admin, folder, hide=hide):
            assert [list_visible(list_folder(client, folder)) for client in two] == [["a.txt"]] * 2


def test_hide_lines_with_a_carriage_return_still_hide(admin: Client, folder: str, two: Callers) -> None:
    put_files(admin, folder, "a.txt", "b.secret", "c.hidden")
    with fixtures.meta(admin, folder, hide="secret$\r\nhidden$\r\n"):
        assert [list_visible(list_folder(client, folder)) for client in two] == [["a.txt"]] * 2


def test_a_hide_pattern_made_to_be_slow_is_not(admin: Client, folder: str, two: Callers) -> None:
    put_files(admin, folder, "a" * 200, "b")
    with fixtures.meta(admin, folder, hide="(a+)+$x\n(a|a)*b$"):
        assert [list_visible(list_folder(client, folder)) for client in two] == [["a" * 200]] * 2


def test_a_hidden_file_cannot_be_carried_out_of_its_rule(admin: Client, folder: str, two: Callers) -> None:
    put_files(admin, folder, "in/a.secret", "in/b.txt", "away/x")
    with fixtures.meta(admin, f"{folder}/in", hide="secret"):
        for client in two:
            answers = try_to_carry(client, f"{folder}/in", "a.secret", f"{folder}/away")
            nothing_matched = answers.pop("regex_rename")
            assert nothing_matched["code"] == 200
            assert {way: answer["code"] for way, answer in answers.items() if answer["code"] == 200} == {}
            swept = client.post("/api/fs/regex_rename", src_dir=f"{folder}/in", src_name_regex="^a", new_name_regex="z")
            assert swept["code"] == 200
            get_data(client.post("/api/fs/remove", dir=f"{folder}/in", names=["a.secret"]))
    assert (admin.names(f"{folder}/in"), admin.names(f"{folder}/away")) == (["a.secret", "b.txt"], ["x"])


def test_a_recursive_move_leaves_hidden_files_where_they_are(admin: Client, folder: str, two: Callers) -> None:
    put_files(admin, folder, "in/a.secret", "in/b.txt", "in/secret/c.txt")
    admin.ok("/api/fs/mkdir", path=f"{folder}/away")
    with fixtures.meta(admin, f"{folder}/in", hide="secret", h_sub=True):
        for client in two:
            answer = client.post("/api/fs/recursive_move", src_dir=f"{folder}/in", dst_dir=f"{folder}/away")
            assert answer["code"] in (200, 403)
    assert admin.names(f"{folder}/in") == ["a.secret", "secret"]
    assert admin.names(f"{folder}/in/secret") == ["c.txt"]
    assert admin.names(f"{folder}/away") == ["b.txt"]


def test_a_hidden_mount_is_hidden_like_a_folder(admin: Client, folder: str, two: Callers) -> None:
    mounted = f"{folder}/secret-mount"
    with fixtures.virtual(admin, mounted), fixtures.meta(admin, folder, hide="secret"):
        for client in two:
            assert list_visible(list_folder(client, folder)) == []
            assert get_refusal(get_file(client, mounted)) == UNREADABLE
            assert get_refusal(list_folder(client, mounted)) == UNREADABLE
        assert admin.names(folder) == ["secret-mount"]
