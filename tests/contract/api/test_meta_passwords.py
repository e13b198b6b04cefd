"""Passwords of per-path rules, which rule counts, and the texts that a rule shows."""

from __future__ import annotations

import pytest

from tests.contract.api import fixtures
from tests.contract.api.accounts import People, get_data, get_refusal
from tests.contract.api.meta_client import (
    NO_PRIVILEGE,
    SKIP_PASSWORD,
    UNREADABLE,
    Callers,
    find_meta,
    get_file,
    list_folder,
    list_visible,
    make_callers,
    put_files,
    try_to_carry,
)
from tests.support.service import Client


# Passwords
def test_a_password_with_p_sub_shuts_the_folder_and_everything_below(admin: Client, folder: str, two: Callers) -> None:
    put_files(admin, folder, "shut/a.txt", "shut/sub/b.txt")
    shut = f"{folder}/shut"
    with fixtures.meta(admin, shut, password="open sesame", p_sub=True):
        for client in two:
            for path in (shut, f"{shut}/sub", f"{shut}/a.txt", f"{shut}/sub/b.txt", f"{shut}/no/such"):
                for wrong in ("", "Open sesame", "open sesame ", "open"):
                    assert get_refusal(get_file(client, path, wrong)) == UNREADABLE
                    assert get_refusal(list_folder(client, path, wrong)) == UNREADABLE
                    assert get_refusal(client.post("/api/fs/dirs", path=path, password=wrong)) == UNREADABLE
                    assert get_refusal(client.post("/api/fs/other", path=path, password=wrong)) == UNREADABLE
            assert list_visible(list_folder(client, shut, "open sesame")) == ["a.txt", "sub"]
            assert list_visible(list_folder(client, f"{shut}/sub", "open sesame")) == ["b.txt"]
            assert get_data(get_file(client, f"{shut}/sub/b.txt", "open sesame"))["name"] == "b.txt"
            assert list_visible(list_folder(client, folder)) == ["shut"]


def test_a_password_in_the_query_counts_as_one_in_the_body(admin: Client, folder: str, two: Callers) -> None:
    with fixtures.meta(admin, folder, password="open sesame", p_sub=True):
        for client in two:
            assert get_refusal(client.get("/api/fs/list", path=folder)) == UNREADABLE
            assert get_refusal(client.get("/api/fs/get", path=folder, password="x")) == UNREADABLE
            assert get_refusal(client.get("/api/fs/dirs", path=folder)) == UNREADABLE
            assert get_data(client.get("/api/fs/list", path=folder, password="open sesame"))["total"] == 0


def test_a_password_without_p_sub_guards_the_folder_itself_only(admin: Client, folder: str, two: Callers) -> None:
    put_files(admin, folder, "shut/a.txt", "shut/sub/b.txt")
    shut = f"{folder}/shut"
    with fixtures.meta(admin, shut, password="x"):
        for client in two:
            assert get_refusal(list_folder(client, shut)) == UNREADABLE
            assert get_refusal(get_file(client, shut)) == UNREADABLE
            assert list_visible(list_folder(client, shut, "x")) == ["a.txt", "sub"]
            assert list_visible(list_folder(client, f"{shut}/sub")) == ["b.txt"]
            assert get_data(get_file(client, f"{shut}/a.txt"))["name"] == "a.txt"


def test_the_bit_that_skips_passwords_skips_them(admin: Client, accounts: People, folder: str) -> None:
    put_files(admin, folder, "a.txt")
    with fixtures.meta(admin, folder, password="x", p_sub=True):
        assert list_visible(list_folder(admin, folder)) == ["a.txt"]
        with make_callers(admin, accounts, SKIP_PASSWORD) as two:
            for client in two:
                assert list_visible(list_folder(client, folder)) == ["a.txt"]
                assert get_data(get_file(client, f"{folder}/a.txt"))["name"] == "a.txt"


def test_a_protected_file_cannot_be_carried_out_of_its_rule(admin: Client, folder: str, two: Callers) -> None:
    put_files(admin, folder, "shut/a.txt", "shut/b.txt")
    admin.ok("/api/fs/mkdir", path=f"{folder}/away")
    with fixtures.meta(admin, f"{folder}/shut", password="x", p_sub=True):
        for client in two:
            answers = try_to_carry(client, f"{folder}/shut", "a.txt", f"{folder}/away")
            assert {way: get_refusal(answer) for way, answer in answers.items()} == dict.fromkeys(answers, UNREADABLE)
            flat = client.post("/api/fs/recursive_move", src_dir=f"{folder}/shut", dst_dir=f"{folder}/away")
            assert get_refusal(flat) == UNREADABLE
    assert (admin.names(f"{folder}/shut"), admin.names(f"{folder}/away")) == (["a.txt", "b.txt"], [])


@pytest.mark.parametrize("p_sub", [True, False])
def test_a_protected_folder_cannot_be_renamed_or_moved_out_of_its_rule(
    admin: Client, folder: str, two: Callers, p_sub: bool
) -> None:
    put_files(admin, folder, "shut/a.txt", "away/x")
    with fixtures.meta(admin, f"{folder}/shut", password="x", p_sub=p_sub):
        for client in two:
            answers = try_to_carry(client, folder, "shut", f"{folder}/away")
            assert {way: get_refusal(answer) for way, answer in answers.items()} == dict.fromkeys(answers, UNREADABLE)
    assert (admin.names(folder), admin.names(f"{folder}/away")) == (["away", "shut"], ["x"])


def test_a_folder_around_a_protected_one_cannot_carry_it_out_of_its_rule(
    admin: Client, folder: str, two: Callers
) -> None:
    put_files(admin, folder, "around/in/shut/a.txt", "away/x")
    with fixtures.meta(admin, f"{folder}/around/in/shut", password="x", p_sub=True):
        for client in two:
            assert list_visible(list_folder(client, f"{folder}/around")) == ["in"]
            answers = try_to_carry(client, folder, "around", f"{folder}/away")
            assert {way: answer["code"] for way, answer in answers.items() if answer["code"] == 200} == {}
    assert (admin.names(folder), admin.names(f"{folder}/away")) == (["around", "away"], ["x"])


def test_files_of_a_protected_folder_are_no_related_files_of_another(admin: Client, folder: str, two: Callers) -> None:
    put_files(admin, folder, "film.mp4", "film.srt", "film.secret")
    with fixtures.meta(admin, folder, hide="secret$"):
        for client in two:
            related = get_data(get_file(client, f"{folder}/film.mp4"))["related"]
            assert [row["name"] for row in related] == ["film.srt"]
        assert len(get_data(get_file(admin, f"{folder}/film.mp4"))["related"]) == 2


def test_links_into_protected_folder_are_always_signed(admin: Client, folder: str, two: Callers) -> None:
    put_files(admin, folder, "shut/a.txt", "open.txt")
    with fixtures.settings(admin, sign_all="false"), fixtures.meta(admin, f"{folder}/shut", password="x", p_sub=True):
        for client in two:
            assert client.http.get(f"/d{folder}/open.txt").content == b"open.txt"
            for route in ("d", "p"):
                assert client.http.get(f"/{route}{folder}/shut/a.txt").status_code == 401
            url = get_data(get_file(client, f"{folder}/shut/a.txt", "x"))["raw_url"]
            assert "sign=" in url and client.http.get(url).content == b"shut/a.txt"


# The nearest rule
def test_only_the_nearest_rule_counts(admin: Client, folder: str, two: Callers) -> None:
    put_files(admin, folder, "in/a.txt", "in/deep/b.txt", "out.txt")
    outer = {"password": "outer", "p_sub": True, "readme": "outer", "r_sub": True}
    with fixtures.meta(admin, folder, **outer), fixtures.meta(admin, f"{folder}/in", password="inner"):
        for client in two:
            assert get_refusal(list_folder(client, folder)) == UNREADABLE
            assert get_refusal(get_file(client, f"{folder}/out.txt")) == UNREADABLE
            assert get_refusal(list_folder(client, f"{folder}/in", "outer")) == UNREADABLE
            assert get_data(list_folder(client, f"{folder}/in", "inner"))["readme"] == ""
            assert list_visible(list_folder(client, f"{folder}/in/deep")) == ["b.txt"]


def test_a_rule_does_not_reach_a_sibling_of_a_longer_name(admin: Client, folder: str, two: Callers) -> None:
    put_files(admin, folder, "team/a.txt", "teamwork/b.txt", "team.txt")
    with fixtures.meta(admin, f"{folder}/team", password="x", p_sub=True):
        for client in two:
            assert get_refusal(list_folder(client, f"{folder}/team")) == UNREADABLE
            assert list_visible(list_folder(client, f"{folder}/teamwork")) == ["b.txt"]
            assert get_data(get_file(client, f"{folder}/team.txt"))["name"] == "team.txt"


def test_another_spelling_of_a_path_does_not_pass_its_rule(admin: Client, folder: str, two: Callers) -> None:
    put_files(admin, folder, "shut/a.txt")
    shut = f"{folder}/shut"
    spellings = (
        f"{shut}/", f"/{shut}", shut.replace("/", "//"), shut.replace("/", "/./"), shut.replace("/", "\\"),
        f"{folder}/./shut", f"{folder}\\shut/",
    )  # fmt: skip
    with fixtures.meta(admin, shut, password="x", p_sub=True):
        for client in two:
            for spelling in spellings:
                assert get_refusal(list_folder(client, spelling)) == UNREADABLE
                assert get_refusal(get_file(client, f"{spelling}/a.txt")) == UNREADABLE
            for elsewhere in (f"{folder}/shut/../shut", f"{folder}/x/../shut/a.txt"):
                assert get_refusal(get_file(client, elsewhere)) == (403, "using relative path is not allowed")


def test_a_rule_meets_the_absolute_path_of_a_confined_user(admin: Client, accounts: People, folder: str) -> None:
    put_files(admin, folder, "home/shut/a.txt")
    client = accounts.new(permission=NO_PRIVILEGE, base_path=f"{folder}/home").client
    with fixtures.meta(admin, f"{folder}/home/shut", password="x", p_sub=True), fixtures.meta(admin, "/shut"):
        assert get_refusal(list_folder(client, "/shut")) == UNREADABLE
        assert list_visible(list_folder(client, "/shut", "x")) == ["a.txt"]


def test_a_rule_ends_with_its_deletion_and_changes_with_its_update(admin: Client, folder: str, two: Callers) -> None:
    with fixtures.meta(admin, folder, password="first", p_sub=True):
        assert [get_refusal(list_folder(client, folder)) for client in two] == [UNREADABLE] * 2
        get_data(admin.post("/api/admin/meta/update", **(find_meta(admin, folder) | {"password": "second"})))
        assert [get_refusal(list_folder(client, folder, "first")) for client in two] == [UNREADABLE] * 2
        assert [list_visible(list_folder(client, folder, "second")) for client in two] == [[], []]
    assert [list_visible(list_folder(client, folder)) for client in two] == [[], []]


# Texts
def test_readme_and_header_apply_below_by_their_flags(admin: Client, folder: str, two: Callers) -> None:
    put_files(admin, folder, "a.txt", "sub/b.txt")
    text = "# Überschrift <script>\n[x](https://example.org)"
    for r_sub, header_sub in ((False, False), (True, False), (False, True), (True, True)):
        with fixtures.meta(admin, folder, readme=text, r_sub=r_sub, header="head", header_sub=header_sub):
            below = (text if r_sub else "", "head" if header_sub else "")
            for client in (*two, admin):
                here = get_data(list_folder(client, folder))
                assert (here["readme"], here["header"]) == (text, "head")
                for answer in (
                    list_folder(client, f"{folder}/sub"),
                    get_file(client, f"{folder}/sub/b.txt"),
                    get_file(client, f"{folder}/a.txt"),
                ):
                    assert (get_data(answer)["readme"], get_data(answer)["header"]) == below


def test_the_texts_of_a_protected_folder_are_not_told(admin: Client, folder: str, two: Callers) -> None:
    with fixtures.meta(admin, folder, readme="classified", header="classified", password="x", p_sub=True, r_sub=True):
        for client in two:
            for route in ("/api/fs/list", "/api/fs/get", "/api/fs/dirs"):
                assert "classified" not in client.http.post(route, json={"path": folder}).text
            assert get_data(list_folder(client, folder, "x"))["readme"] == "classified"
