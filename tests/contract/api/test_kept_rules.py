"""A protected folder that is renamed or moved: its rule would stay at the old path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.contract.api import fixtures
from tests.support.service import Client, Service

GENERAL = "a rule protects it and would stay behind: only an administrator can prepare its new path"
PROTECTIONS: list[dict[str, Any]] = [
    {"password": "sesame"},
    {"read_users": [1]},
    {"write_users": [1]},
    {"read_groups": [10**9], "read_users": [1]},
    {"hide": "^secret$"},
]


def explain(old: str, new: str) -> str:
    return f"the rule for [{old}] would stay behind and protect nothing: make a rule for [{new}] first"


def change(client: Client, verb: str, folder: str, name: str, new_name: str) -> tuple[int, str]:
    """Give an entry of a folder another path, and return the code and the message of the answer."""
    bodies: dict[str, dict[str, Any]] = {
        "rename": {"path": f"{folder}/{name}", "name": new_name},
        "batch_rename": {"src_dir": folder, "rename_objects": [{"src_name": name, "new_name": new_name}]},
        "regex_rename": {"src_dir": folder, "src_name_regex": f"^{name}$", "new_name_regex": new_name},
        "move": {"src_dir": folder, "dst_dir": f"{folder}/{new_name}", "names": [name]},
    }
    answer = client.post(f"/api/fs/{verb}", **bodies[verb])
    return answer["code"], answer["message"]


@pytest.mark.parametrize("verb", ["rename", "batch_rename", "regex_rename", "move"])
def test_protected_folder_needs_a_rule_at_its_new_path(admin: Client, folder: str, verb: str) -> None:
    fixtures.fill(admin, folder, "closed/", "closed/in/", "closed/in/kept.txt", "new/" if verb == "move" else "other/")
    new = f"{folder}/new/closed" if verb == "move" else f"{folder}/new"
    before = admin.names(folder)
    with fixtures.meta(admin, f"{folder}/closed/in", password="sesame", p_sub=True):
        refusal = (403, explain(f"{folder}/closed/in", f"{new}/in"))
        assert change(admin, verb, folder, "closed", "new") == refusal
        with fixtures.meta(admin, f"{new}/in", readme="# a text protects nothing"):
            assert change(admin, verb, folder, "closed", "new") == refusal
        assert admin.names(folder) == before
        with fixtures.meta(admin, f"{new}/in", password="sesame", p_sub=True):
            assert change(admin, verb, folder, "closed", "new")[0] == 200
            assert admin.names(new) == ["in"]


@pytest.mark.parametrize("rule", PROTECTIONS, ids=lambda rule: next(iter(rule)))
def test_every_rule_that_forbids_something_is_kept(admin: Client, folder: str, rule: dict[str, Any]) -> None:
    fixtures.fill(admin, folder, "closed/")
    with fixtures.meta(admin, f"{folder}/closed", **rule):
        assert change(admin, "rename", folder, "closed", "new") == (
            403, explain(f"{folder}/closed", f"{folder}/new"),
        )  # fmt: skip


@pytest.mark.parametrize("rule", [{"readme": "# x", "r_sub": True}, {"header": "x"}, {"write": True}, {"hide": "\n"}])
def test_rule_that_forbids_nothing_prevents_no_rename(admin: Client, folder: str, rule: dict[str, Any]) -> None:
    fixtures.fill(admin, folder, "open/")
    with fixtures.meta(admin, f"{folder}/open", **rule):
        assert change(admin, "rename", folder, "open", "new")[0] == 200
    assert admin.names(folder) == ["new"]


def test_user_does_not_learn_the_path_of_the_rule(service: Service, admin: Client, folder: str) -> None:
    fixtures.fill(admin, folder, "closed/", "closed/in/")
    with (
        fixtures.user(service, admin, fixtures.ALL_RIGHTS) as user,
        fixtures.meta(admin, f"{folder}/closed/in", password="sesame"),
    ):
        assert change(user, "rename", folder, "closed", "new") == (403, GENERAL)
    assert admin.names(folder) == ["closed"]


def test_folder_with_a_rule_at_another_mount_of_it_is_kept(admin: Client, folder: str) -> None:
    fixtures.fill(admin, folder, "closed/", "free/")
    with fixtures.mount(admin, "Alias", addition={"paths": folder, "write_conflict_policy": "first"}) as alias:
        with fixtures.meta(admin, f"{alias}/closed", password="sesame"):
            refusal = (403, explain(f"{alias}/closed", f"{alias}/new"))
            assert change(admin, "rename", folder, "closed", "new") == refusal
            assert change(admin, "rename", folder, "free", "fresh")[0] == 200
        with fixtures.meta(admin, f"{folder}/closed", password="sesame"):
            refusal = (403, explain(f"{folder}/closed", f"{folder}/new"))
            assert change(admin, "rename", alias, "closed", "new") == refusal
    assert sorted(admin.names(folder)) == ["closed", "fresh"]


def test_folder_moves_to_another_storage_with_a_rule_there(admin: Client, folder: str, tmp_path: Path) -> None:
    fixtures.fill(admin, folder, "closed/", "closed/kept.txt")
    with fixtures.local(admin, tmp_path) as other, fixtures.meta(admin, f"{folder}/closed", password="sesame"):
        body = {"src_dir": folder, "dst_dir": other, "names": ["closed"]}
        answer = admin.post("/api/fs/move", **body)
        assert (answer["code"], answer["message"]) == (403, explain(f"{folder}/closed", f"{other}/closed"))
        assert admin.post("/api/fs/copy", **body)["code"] == 200  # as the guide says, a copy has no rules
