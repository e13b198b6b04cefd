"""Per-path rules: their administration, and what they do to a normal user and to the guest."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.contract.api import fixtures
from tests.contract.api.accounts import NOT_ADMIN, People, Person, get_data, get_refusal, guest
from tests.service import Client, Service

UNREADABLE = (403, "password is incorrect or you have no permission")
DENIED = (403, "permission denied")
UNKNOWN = (500, "failed get old meta: record not found")
TAKEN = (500, "constraint failed: UNIQUE constraint failed: x_meta.path (2067)")
SEE_HIDDEN, SKIP_PASSWORD = 1, 2
NO_PRIVILEGE = 0xFFFF & ~SEE_HIDDEN & ~SKIP_PASSWORD
EMPTY: dict[str, Any] = {
    "read_users": None, "read_users_sub": False, "write_users": None, "write_users_sub": False, "password": "",
    "p_sub": False, "write": False, "w_sub": False, "hide": "", "h_sub": False, "readme": "", "r_sub": False,
    "header": "", "header_sub": False,
}  # fmt: skip


@pytest.fixture
def accounts(service: Service, admin: Client) -> Iterator[People]:
    accounts = People(service, admin)
    yield accounts
    accounts.close()


@dataclass(frozen=True, slots=True)
class Callers:
    """Those whom a rule is tried on: a normal user and the guest, both with `permission`."""

    user: Client
    guest: Client
    user_id: int
    guest_id: int

    def __iter__(self) -> Iterator[Client]:
        return iter((self.user, self.guest))


@contextmanager
def make_callers(admin: Client, accounts: People, permission: int) -> Iterator[Callers]:
    person = accounts.new(permission=permission)
    with guest(admin, permission=permission) as visitor:
        yield Callers(person.client, visitor, person.id, get_data(visitor.get("/api/me"))["id"])


@pytest.fixture(scope="module")
def normal(service: Service, admin: Client) -> Iterator[Person]:
    """One normal user for all tests here that need no rights of their own."""
    accounts = People(service, admin)
    yield accounts.new(permission=NO_PRIVILEGE)
    accounts.close()


@pytest.fixture
def two(admin: Client, normal: Person) -> Iterator[Callers]:
    """A normal user and the guest with every right but to see hidden names and to skip passwords."""
    with guest(admin, permission=NO_PRIVILEGE) as visitor:
        yield Callers(normal.client, visitor, normal.id, get_data(visitor.get("/api/me"))["id"])


def list_metas(admin: Client, **query: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = get_data(admin.get("/api/admin/meta/list", **query))["content"]
    return rows


def find_meta(admin: Client, path: str) -> dict[str, Any]:
    return next(one for one in list_metas(admin) if one["path"] == path)


def list_folder(client: Client, path: str, password: str = "") -> dict[str, Any]:
    return client.post("/api/fs/list", path=path, password=password)


def get_file(client: Client, path: str, password: str = "") -> dict[str, Any]:
    return client.post("/api/fs/get", path=path, password=password)


def list_names(answer: dict[str, Any]) -> list[str]:
    return sorted(one["name"] for one in get_data(answer)["content"])


def fill(admin: Client, folder: str, *paths: str) -> None:
    """Files whose content is their own path."""
    for path in paths:
        get_data(admin.put(f"{folder}/{path}", path.encode()))


def try_to_carry(client: Client, folder: str, name: str, away: str) -> dict[str, dict[str, Any]]:
    """Every way to carry `folder`/`name` to where the rule does not reach."""
    pair = {"src_dir": folder, "dst_dir": away, "names": [name]}
    renamed = {"src_name": name, "new_name": "taken.txt"}
    pattern = {"src_name_regex": f"^{name.replace('.', '[.]')}$", "new_name_regex": "taken.txt"}
    return {
        "copy": client.post("/api/fs/copy", **pair),
        "copy over": client.post("/api/fs/copy", **pair, overwrite=True),
        "copy merged": client.post("/api/fs/copy", **pair, merge=True),
        "rename": client.post("/api/fs/rename", path=f"{folder}/{name}", name="taken.txt"),
        "batch_rename": client.post("/api/fs/batch_rename", src_dir=folder, rename_objects=[renamed]),
        "regex_rename": client.post("/api/fs/regex_rename", src_dir=folder, **pattern),
        "move": client.post("/api/fs/move", **pair),
    }


# Records


def test_a_rule_is_created_shown_listed_updated_and_deleted(admin: Client, folder: str) -> None:
    wish = EMPTY | {
        "path": folder, "password": "p", "p_sub": True, "write": True, "w_sub": True, "hide": "a\nb", "h_sub": True,
        "readme": "# hi", "r_sub": True, "header": "head", "header_sub": True, "read_users": [1, 2],
        "read_users_sub": True, "write_users": [1], "write_users_sub": True,
    }  # fmt: skip
    assert get_data(admin.post("/api/admin/meta/create", **wish)) is None
    found = find_meta(admin, folder)
    id = found["id"]
    assert found == wish | {"id": id}
    assert get_data(admin.get("/api/admin/meta/get", id=id)) == found
    assert get_data(admin.post("/api/admin/meta/update", id=id, path=f"{folder}/other")) is None
    assert get_data(admin.get("/api/admin/meta/get", id=id)) == EMPTY | {"id": id, "path": f"{folder}/other"}
    assert get_data(admin.post("/api/admin/meta/delete", params={"id": id})) is None
    assert get_refusal(admin.get("/api/admin/meta/get", id=id)) == UNKNOWN


def test_only_the_path_of_a_rule_is_required_and_it_is_cleaned(admin: Client, folder: str) -> None:
    required = (400, "Key: 'Meta.Path' Error:Field validation for 'Path' failed on the 'required' tag")
    assert get_refusal(admin.post("/api/admin/meta/create")) == required
    assert get_refusal(admin.post("/api/admin/meta/create", path="", password="x")) == required
    assert get_refusal(admin.post("/api/admin/meta/update", id=1)) == required
    get_data(admin.post("/api/admin/meta/create", path=f"{folder.replace('/', chr(92))}//x/./"))
    found = find_meta(admin, f"{folder}/x")
    assert found == EMPTY | {"id": found["id"], "path": f"{folder}/x"}
    get_data(admin.post("/api/admin/meta/delete", params={"id": found["id"]}))


def test_a_path_has_one_rule(admin: Client, folder: str) -> None:
    with fixtures.meta(admin, folder), fixtures.meta(admin, f"{folder}/x"):
        for spelling in (folder, f"{folder}/", f"/{folder}", folder.replace("/", "\\")):
            assert get_refusal(admin.post("/api/admin/meta/create", path=spelling)) == TAKEN
        other = find_meta(admin, f"{folder}/x")
        assert get_refusal(admin.post("/api/admin/meta/update", **(other | {"path": folder, "readme": "x"}))) == TAKEN
        assert find_meta(admin, f"{folder}/x") == other
        get_data(admin.post("/api/admin/meta/update", **other))


def test_of_two_rules_for_one_path_created_at_the_same_time_one_is_made(admin: Client, folder: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: admin.post("/api/admin/meta/create", path=folder), range(4)))
    assert sorted(answer["code"] for answer in answers) == [200, 500, 500, 500]
    [found] = [one for one in list_metas(admin) if one["path"] == folder]
    get_data(admin.post("/api/admin/meta/delete", params={"id": found["id"]}))


def test_the_list_is_ordered_by_id_and_cut_into_pages(admin: Client, folder: str) -> None:
    with ExitStack() as stack:
        for name in ("b", "a", "c"):
            stack.enter_context(fixtures.meta(admin, f"{folder}/{name}"))
        ids = [one["id"] for one in list_metas(admin)]
        assert ids == sorted(ids)
        assert [one["path"] for one in list_metas(admin)][-3:] == [f"{folder}/{name}" for name in ("b", "a", "c")]
        page = get_data(admin.get("/api/admin/meta/list", page=2, per_page=2))
        assert [one["id"] for one in page["content"]] == ids[2:4]
        assert page["total"] == len(ids)
        assert list_metas(admin, page=999, per_page=2) == []


def test_what_names_no_rule_is_not_found(admin: Client) -> None:
    assert get_refusal(admin.get("/api/admin/meta/get", id=10**9)) == UNKNOWN
    assert get_refusal(admin.post("/api/admin/meta/update", id=10**9, path="/x")) == UNKNOWN
    assert get_refusal(admin.post("/api/admin/meta/delete", params={"id": 10**9})) == UNKNOWN
    for id in ("", "x"):
        expected = (400, f'strconv.Atoi: parsing "{id}": invalid syntax')
        assert get_refusal(admin.get("/api/admin/meta/get", id=id)) == expected
        assert get_refusal(admin.post("/api/admin/meta/delete", params={"id": id})) == expected


@pytest.mark.parametrize("line", ["(", "[", "a{2,1}", "(?<x", "*", "(?=a)"])
def test_a_hide_line_that_does_not_compile_is_named(admin: Client, folder: str, line: str) -> None:
    code, message = get_refusal(admin.post("/api/admin/meta/create", path=folder, hide=f"fine\n{line}\nfine"))
    assert code == 400 and message.startswith(f"{line} is illegal: ")
    assert folder not in {one["path"] for one in list_metas(admin)}
    with fixtures.meta(admin, folder, hide="before"):
        before = find_meta(admin, folder)
        assert get_refusal(admin.post("/api/admin/meta/update", **(before | {"hide": line})))[0] == 400
        assert find_meta(admin, folder) == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"path": "/../x"},
        {"path": "/a/../b"},
        {"path": "/a\0b"},
        {"p_sub": "true"},
        {"read_users": ["1"]},
        {"read_users": 1},
        {"hide": 5},
        {"readme": "x" * 200_000},
    ],
)
def test_fields_that_do_not_fit_are_refused(admin: Client, folder: str, wrong: dict[str, Any]) -> None:
    before = list_metas(admin)
    assert get_refusal(admin.post("/api/admin/meta/create", **({"path": folder} | wrong)))[0] in (400, 403)
    assert list_metas(admin) == before


def test_rules_are_the_administrators_business(admin: Client, folder: str, two: Callers) -> None:
    with fixtures.meta(admin, folder, password="secret"):
        for client in two:
            assert get_refusal(client.get("/api/admin/meta/list")) == NOT_ADMIN
            assert get_refusal(client.post("/api/admin/meta/create", path=f"{folder}/x")) == NOT_ADMIN
            assert "secret" not in client.http.post("/api/fs/list", json={"path": folder}).text


# Passwords


def test_a_password_with_p_sub_shuts_the_folder_and_everything_below(admin: Client, folder: str, two: Callers) -> None:
    fill(admin, folder, "shut/a.txt", "shut/sub/b.txt")
    shut = f"{folder}/shut"
    with fixtures.meta(admin, shut, password="open sesame", p_sub=True):
        for client in two:
            for path in (shut, f"{shut}/sub", f"{shut}/a.txt", f"{shut}/sub/b.txt", f"{shut}/no/such"):
                for wrong in ("", "Open sesame", "open sesame ", "open"):
                    assert get_refusal(get_file(client, path, wrong)) == UNREADABLE
                    assert get_refusal(list_folder(client, path, wrong)) == UNREADABLE
                    assert get_refusal(client.post("/api/fs/dirs", path=path, password=wrong)) == UNREADABLE
                    assert get_refusal(client.post("/api/fs/other", path=path, password=wrong)) == UNREADABLE
            assert list_names(list_folder(client, shut, "open sesame")) == ["a.txt", "sub"]
            assert list_names(list_folder(client, f"{shut}/sub", "open sesame")) == ["b.txt"]
            assert get_data(get_file(client, f"{shut}/sub/b.txt", "open sesame"))["name"] == "b.txt"
            assert list_names(list_folder(client, folder)) == ["shut"]


def test_a_password_in_the_query_counts_as_one_in_the_body(admin: Client, folder: str, two: Callers) -> None:
    with fixtures.meta(admin, folder, password="open sesame", p_sub=True):
        for client in two:
            assert get_refusal(client.get("/api/fs/list", path=folder)) == UNREADABLE
            assert get_refusal(client.get("/api/fs/get", path=folder, password="x")) == UNREADABLE
            assert get_refusal(client.get("/api/fs/dirs", path=folder)) == UNREADABLE
            assert get_data(client.get("/api/fs/list", path=folder, password="open sesame"))["total"] == 0


def test_a_password_without_p_sub_guards_the_folder_itself_only(admin: Client, folder: str, two: Callers) -> None:
    fill(admin, folder, "shut/a.txt", "shut/sub/b.txt")
    shut = f"{folder}/shut"
    with fixtures.meta(admin, shut, password="x"):
        for client in two:
            assert get_refusal(list_folder(client, shut)) == UNREADABLE
            assert get_refusal(get_file(client, shut)) == UNREADABLE
            assert list_names(list_folder(client, shut, "x")) == ["a.txt", "sub"]
            assert list_names(list_folder(client, f"{shut}/sub")) == ["b.txt"]
            assert get_data(get_file(client, f"{shut}/a.txt"))["name"] == "a.txt"


def test_the_bit_that_skips_passwords_skips_them(admin: Client, accounts: People, folder: str) -> None:
    fill(admin, folder, "a.txt")
    with fixtures.meta(admin, folder, password="x", p_sub=True):
        assert list_names(list_folder(admin, folder)) == ["a.txt"]
        with make_callers(admin, accounts, SKIP_PASSWORD) as two:
            for client in two:
                assert list_names(list_folder(client, folder)) == ["a.txt"]
                assert get_data(get_file(client, f"{folder}/a.txt"))["name"] == "a.txt"


def test_a_protected_file_cannot_be_carried_out_of_its_rule(admin: Client, folder: str, two: Callers) -> None:
    fill(admin, folder, "shut/a.txt", "shut/b.txt")
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
    fill(admin, folder, "shut/a.txt", "away/x")
    with fixtures.meta(admin, f"{folder}/shut", password="x", p_sub=p_sub):
        for client in two:
            answers = try_to_carry(client, folder, "shut", f"{folder}/away")
            assert {way: get_refusal(answer) for way, answer in answers.items()} == dict.fromkeys(answers, UNREADABLE)
    assert (admin.names(folder), admin.names(f"{folder}/away")) == (["away", "shut"], ["x"])


def test_a_folder_around_a_protected_one_cannot_carry_it_out_of_its_rule(
    admin: Client, folder: str, two: Callers
) -> None:
    fill(admin, folder, "around/in/shut/a.txt", "away/x")
    with fixtures.meta(admin, f"{folder}/around/in/shut", password="x", p_sub=True):
        for client in two:
            assert list_names(list_folder(client, f"{folder}/around")) == ["in"]
            answers = try_to_carry(client, folder, "around", f"{folder}/away")
            assert {way: answer["code"] for way, answer in answers.items() if answer["code"] == 200} == {}
    assert (admin.names(folder), admin.names(f"{folder}/away")) == (["around", "away"], ["x"])


def test_files_of_a_protected_folder_are_no_related_files_of_another(admin: Client, folder: str, two: Callers) -> None:
    fill(admin, folder, "film.mp4", "film.srt", "film.secret")
    with fixtures.meta(admin, folder, hide="secret$"):
        for client in two:
            related = get_data(get_file(client, f"{folder}/film.mp4"))["related"]
            assert [one["name"] for one in related] == ["film.srt"]
        assert len(get_data(get_file(admin, f"{folder}/film.mp4"))["related"]) == 2


def test_links_into_a_protected_folder_are_signed_even_where_signing_is_off(
    admin: Client, folder: str, two: Callers
) -> None:
    fill(admin, folder, "shut/a.txt", "open.txt")
    with fixtures.settings(admin, sign_all="false"), fixtures.meta(admin, f"{folder}/shut", password="x", p_sub=True):
        for client in two:
            assert client.http.get(f"/d{folder}/open.txt").content == b"open.txt"
            for route in ("d", "p"):
                assert client.http.get(f"/{route}{folder}/shut/a.txt").status_code == 401
            url = get_data(get_file(client, f"{folder}/shut/a.txt", "x"))["raw_url"]
            assert "sign=" in url and client.http.get(url).content == b"shut/a.txt"


# The nearest rule


def test_only_the_nearest_rule_counts(admin: Client, folder: str, two: Callers) -> None:
    fill(admin, folder, "in/a.txt", "in/deep/b.txt", "out.txt")
    outer = {"password": "outer", "p_sub": True, "readme": "outer", "r_sub": True}
    with fixtures.meta(admin, folder, **outer), fixtures.meta(admin, f"{folder}/in", password="inner"):
        for client in two:
            assert get_refusal(list_folder(client, folder)) == UNREADABLE
            assert get_refusal(get_file(client, f"{folder}/out.txt")) == UNREADABLE
            assert get_refusal(list_folder(client, f"{folder}/in", "outer")) == UNREADABLE
            assert get_data(list_folder(client, f"{folder}/in", "inner"))["readme"] == ""
            assert list_names(list_folder(client, f"{folder}/in/deep")) == ["b.txt"]


def test_a_rule_does_not_reach_a_sibling_of_a_longer_name(admin: Client, folder: str, two: Callers) -> None:
    fill(admin, folder, "team/a.txt", "teamwork/b.txt", "team.txt")
    with fixtures.meta(admin, f"{folder}/team", password="x", p_sub=True):
        for client in two:
            assert get_refusal(list_folder(client, f"{folder}/team")) == UNREADABLE
            assert list_names(list_folder(client, f"{folder}/teamwork")) == ["b.txt"]
            assert get_data(get_file(client, f"{folder}/team.txt"))["name"] == "team.txt"


def test_another_spelling_of_a_path_does_not_pass_its_rule(admin: Client, folder: str, two: Callers) -> None:
    fill(admin, folder, "shut/a.txt")
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
    fill(admin, folder, "home/shut/a.txt")
    client = accounts.new(permission=NO_PRIVILEGE, base_path=f"{folder}/home").client
    with fixtures.meta(admin, f"{folder}/home/shut", password="x", p_sub=True), fixtures.meta(admin, "/shut"):
        assert get_refusal(list_folder(client, "/shut")) == UNREADABLE
        assert list_names(list_folder(client, "/shut", "x")) == ["a.txt"]


def test_a_rule_ends_with_its_deletion_and_changes_with_its_update(admin: Client, folder: str, two: Callers) -> None:
    with fixtures.meta(admin, folder, password="first", p_sub=True):
        assert [get_refusal(list_folder(client, folder)) for client in two] == [UNREADABLE] * 2
        get_data(admin.post("/api/admin/meta/update", **(find_meta(admin, folder) | {"password": "second"})))
        assert [get_refusal(list_folder(client, folder, "first")) for client in two] == [UNREADABLE] * 2
        assert [list_names(list_folder(client, folder, "second")) for client in two] == [[], []]
    assert [list_names(list_folder(client, folder)) for client in two] == [[], []]


# Hiding


def test_a_hide_line_takes_matching_names_out_of_the_folder(admin: Client, folder: str, two: Callers) -> None:
    fill(admin, folder, "a.txt", "b.secret", "secret.d/c.txt", "sub/d.secret")
    with fixtures.meta(admin, folder, hide="\\.secret$\n\n^secret\\."):
        for client in two:
            data = get_data(list_folder(client, folder))
            assert sorted(one["name"] for one in data["content"]) == ["a.txt", "sub"]
            assert data["total"] == 2
            assert [one["name"] for one in get_data(client.post("/api/fs/dirs", path=folder))] == ["sub"]
            for path in ("b.secret", "secret.d", "secret.d/c.txt", "not-there.secret"):
                assert get_refusal(get_file(client, f"{folder}/{path}")) == UNREADABLE
            assert get_refusal(list_folder(client, f"{folder}/secret.d")) == UNREADABLE
            assert list_names(list_folder(client, f"{folder}/sub")) == ["d.secret"]
            assert get_data(get_file(client, f"{folder}/sub/d.secret"))["size"] == len("sub/d.secret")
        assert admin.names(folder) == ["a.txt", "b.secret", "secret.d", "sub"]


def test_h_sub_hides_names_in_every_folder_below(admin: Client, folder: str, two: Callers) -> None:
    fill(admin, folder, "a.txt", "b.secret", "sub/d.secret", "sub/e.txt", "sub/deep/f.secret")
    with fixtures.meta(admin, folder, hide="secret$", h_sub=True):
        for client in two:
            assert list_names(list_folder(client, folder)) == ["a.txt", "sub"]
            assert list_names(list_folder(client, f"{folder}/sub")) == ["deep", "e.txt"]
            assert list_names(list_folder(client, f"{folder}/sub/deep")) == []
            for path in ("b.secret", "sub/d.secret", "sub/deep/f.secret"):
                assert get_refusal(get_file(client, f"{folder}/{path}")) == UNREADABLE


def test_the_bit_that_sees_hidden_names_sees_them(admin: Client, accounts: People, folder: str) -> None:
    fill(admin, folder, "a.secret")
    with fixtures.meta(admin, folder, hide="secret"), make_callers(admin, accounts, SEE_HIDDEN) as two:
        for client in two:
            assert list_names(list_folder(client, folder)) == ["a.secret"]
            assert get_data(get_file(client, f"{folder}/a.secret"))["name"] == "a.secret"


def test_empty_hide_lines_hide_nothing(admin: Client, folder: str, two: Callers) -> None:
    fill(admin, folder, "a.txt")
    for hide in ("\n", "\n\n  \n", "\r\n", "zzz\r\n\r\n"):
        with fixtures.meta(admin, folder, hide=hide):
            assert [list_names(list_folder(client, folder)) for client in two] == [["a.txt"]] * 2


def test_hide_lines_with_a_carriage_return_still_hide(admin: Client, folder: str, two: Callers) -> None:
    fill(admin, folder, "a.txt", "b.secret", "c.hidden")
    with fixtures.meta(admin, folder, hide="secret$\r\nhidden$\r\n"):
        assert [list_names(list_folder(client, folder)) for client in two] == [["a.txt"]] * 2


def test_a_hide_pattern_made_to_be_slow_is_not(admin: Client, folder: str, two: Callers) -> None:
    fill(admin, folder, "a" * 200, "b")
    with fixtures.meta(admin, folder, hide="(a+)+$x\n(a|a)*b$"):
        assert [list_names(list_folder(client, folder)) for client in two] == [["a" * 200]] * 2


def test_a_hidden_file_cannot_be_carried_out_of_its_rule(admin: Client, folder: str, two: Callers) -> None:
    fill(admin, folder, "in/a.secret", "in/b.txt", "away/x")
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
    fill(admin, folder, "in/a.secret", "in/b.txt", "in/secret/c.txt")
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
            assert list_names(list_folder(client, folder)) == []
            assert get_refusal(get_file(client, mounted)) == UNREADABLE
            assert get_refusal(list_folder(client, mounted)) == UNREADABLE
        assert admin.names(folder) == ["secret-mount"]


# Writing


def test_write_opens_a_folder_for_new_things_without_the_right(admin: Client, accounts: People, folder: str) -> None:
    fill(admin, folder, "in/sub/x")
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
    fill(admin, folder, "in/sub/x")
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
    fill(admin, folder, "a.txt", "to/x")
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


def test_write_of_a_rule_does_not_spread_to_a_folder_with_a_rule_of_its_own(
    admin: Client, accounts: People, folder: str
) -> None:
    fill(admin, folder, "in/x")
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


def test_read_users_admits_those_it_names_and_not_even_the_administrator_else(
    admin: Client, folder: str, two: Callers
) -> None:
    fill(admin, folder, "in/a.txt", "in/sub/b.txt")
    inside = f"{folder}/in"
    for chosen, left_out in ((two.user_id, two.guest), (two.guest_id, two.user)):
        let_in = two.user if left_out is two.guest else two.guest
        with fixtures.meta(admin, inside, read_users=[chosen], read_users_sub=True):
            assert list_names(list_folder(let_in, inside)) == ["a.txt", "sub"]
            assert get_data(get_file(let_in, f"{inside}/sub/b.txt"))["name"] == "b.txt"
            assert list_names(list_folder(let_in, folder)) == ["in"]
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
    fill(admin, folder, "in/a.txt", "in/sub/b.txt")
    with fixtures.meta(admin, f"{folder}/in", read_users=[two.user_id]):
        assert get_refusal(list_folder(two.guest, f"{folder}/in")) == UNREADABLE
        assert list_names(list_folder(two.guest, f"{folder}/in/sub")) == ["b.txt"]
        assert get_data(get_file(two.guest, f"{folder}/in/a.txt"))["name"] == "a.txt"
        assert list_names(list_folder(two.user, f"{folder}/in")) == ["a.txt", "sub"]


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
    fill(admin, folder, "in/a.txt", "in/sub/b.txt", "out/c.txt")
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
    fill(admin, folder, "in/sub/b.txt")
    with fixtures.meta(admin, f"{folder}/in", write_users=[two.user_id]):
        assert get_refusal(two.guest.put(f"{folder}/in/new", b"x")) == DENIED
        get_data(two.guest.put(f"{folder}/in/sub/new", b"x"))
    assert admin.names(f"{folder}/in/sub") == ["b.txt", "new"]


# Texts


def test_readme_and_header_are_shown_at_the_folder_and_below_by_their_flags(
    admin: Client, folder: str, two: Callers
) -> None:
    fill(admin, folder, "a.txt", "sub/b.txt")
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
