"""Options of a storage that are tried before they are stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mangrove.tree.administration import MAX_TRIAL_FOLDERS
from tests.support.service import Client

ROUTE = "/api/admin/storage/test"


def try_local(admin: Client, root: Path, folder: str = "/") -> dict[str, Any]:
    addition = json.dumps({"root_folder_path": str(root)})
    return admin.post(ROUTE, driver="Local", addition=addition, folder=folder)


def list_storages(admin: Client) -> list[Any]:
    rows: list[Any] = admin.get("/api/admin/storage/list")["data"]["content"]
    return rows


def test_trial_of_a_folder_lists_its_folders_and_stores_nothing(admin: Client, tmp_path: Path) -> None:
    (tmp_path / "letters" / "old").mkdir(parents=True)
    (tmp_path / "letter.txt").touch()
    before = len(list_storages(admin))
    assert try_local(admin, tmp_path)["data"]["folders"] == ["letters"]
    assert try_local(admin, tmp_path, "/letters")["data"]["folders"] == ["old"]
    assert len(list_storages(admin)) == before


def test_trial_of_a_missing_folder_gives_the_reason(admin: Client, tmp_path: Path) -> None:
    answer = try_local(admin, tmp_path / "nowhere")
    assert answer["code"] != 200 and "nowhere" in answer["message"]
    answer = try_local(admin, tmp_path, "/nowhere")
    assert answer["code"] != 200 and answer["message"]


def test_trial_of_an_unknown_driver_is_refused(admin: Client) -> None:
    answer = admin.post(ROUTE, driver="Floppy", addition="{}")
    assert answer["code"] != 200 and "Floppy" in answer["message"]


def test_trial_of_damaged_options_is_refused(admin: Client) -> None:
    assert admin.post(ROUTE, driver="Local", addition="{")["code"] == 400


def test_trial_of_a_dead_server_ends_with_a_reason(admin: Client) -> None:
    addition = json.dumps({"address": "http://127.0.0.1:9/", "username": "a", "password": "b"})
    answer = admin.post(ROUTE, driver="WebDav", addition=addition)
    assert answer["code"] != 200 and answer["message"]


def test_trial_leads_nowhere_above_the_root(admin: Client, tmp_path: Path) -> None:
    (tmp_path / "inside" / "deep").mkdir(parents=True)
    answer = try_local(admin, tmp_path / "inside", "/../..")
    assert answer["code"] != 200 or answer["data"]["folders"] == ["deep"]


def test_trial_of_a_folder_with_many_folders_is_cut(admin: Client, tmp_path: Path) -> None:
    for number in range(MAX_TRIAL_FOLDERS + 5):
        (tmp_path / f"{number:05}").mkdir()
    assert len(try_local(admin, tmp_path)["data"]["folders"]) == MAX_TRIAL_FOLDERS
