"""The driver suite on storages that lead to storages: Crypt, Alias, and either over the other."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.drivers.base import Driver
from tests import servers
from tests.contract.drivers import suite
from tests.contract.drivers.actions import put
from tests.contract.drivers.trees import Tree

pytestmark = pytest.mark.long


WRITABLE = {"write_conflict_policy": "first", "put_conflict_policy": "first"}
PLAIN_FOLDERS = {"directory_name_encryption": "false", "salt": "s"}
MODES = {
    "Crypt-Local": {},
    "Crypt-Local-plain-folders": PLAIN_FOLDERS,
    "Crypt-Local-obfuscate": {"filename_encryption": "obfuscate"},
    "Crypt-Local-off": {"filename_encryption": "off", "directory_name_encryption": "false"},
    "Crypt-Local-base32768": {"filename_encoding": "base32768"},
}

# an Alias does not remove unchanged entries atomically, so the encrypted file behind it is compared right before
NOT_BEHIND_AN_ALIAS = {
    "a_file_that_is_unchanged_is_removed",
    "a_file_that_changed_is_not_removed",
    "a_removal_beside_writes_loses_none_that_was_answered_after_it_began",
}


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with servers.moto_s3() as endpoint:
        yield endpoint


async def mount_local(tree: Tree, path: str, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    await tree.mount(path, "Local", root_folder_path=str(folder), show_hidden=True)


async def over_local(tree: Tree, folder: Path, request: Any) -> None:
    await mount_local(tree, "/disk", folder / "disk")
    (folder / "disk" / "side").mkdir(exist_ok=True)
    await tree.crypt("/top", "/disk/side", **MODES[request.node.callspec.params["scene"]])


async def over_s3(tree: Tree, folder: Path, request: Any) -> None:
    endpoint = request.getfixturevalue("moto")
    await tree.mount("/s3", "S3", **servers.s3_options(endpoint, servers.make_bucket(endpoint)))
    await tree.crypt("/top", "/s3")


async def over_crypt(tree: Tree, folder: Path, request: Any) -> None:
    await mount_local(tree, "/disk", folder / "disk")
    await tree.crypt("/inner", "/disk", filename_encryption="obfuscate")
    await tree.crypt("/top", "/inner", **PLAIN_FOLDERS)


async def alias_over_crypt(tree: Tree, folder: Path, request: Any) -> None:
    await mount_local(tree, "/disk", folder / "disk")
    await tree.crypt("/inner", "/disk")
    await tree.mount("/top", "Alias", paths="/inner", **WRITABLE)


async def alias_over_two_crypts(tree: Tree, folder: Path, request: Any) -> None:
    for number in "12":
        await mount_local(tree, f"/disk{number}", folder / number)
        await tree.crypt(f"/inner{number}", f"/disk{number}", password=f"pass{number}")
    everywhere = {"write_conflict_policy": "all", "put_conflict_policy": "all"}
    await tree.mount("/top", "Alias", paths="one:/inner1\none:/inner2", **everywhere)


async def crypt_over_alias(tree: Tree, folder: Path, request: Any) -> None:
    await mount_local(tree, "/disk", folder / "disk")
    await tree.mount("/alias", "Alias", paths="/disk", **WRITABLE)
    await tree.crypt("/top", "/alias")


SCENES: dict[str, Callable[[Tree, Path, Any], Awaitable[None]]] = {
    **dict.fromkeys(MODES, over_local),
    "Crypt-S3": over_s3,
    "Crypt-Crypt": over_crypt,
    "Crypt-Alias": crypt_over_alias,
    "Alias-Crypt": alias_over_crypt,
    "Alias-two-Crypts": alias_over_two_crypts,
}


# the other ways to encrypt names are tried where names matter
ABOUT_NAMES = ("name_cases", "folder_cases", "change_cases", "existing_cases")
FULL_SCENES = ("Crypt-Local", "Crypt-Local-plain-folders", "Crypt-S3", "Crypt-Crypt", "Alias-Crypt", "Alias-two-Crypts")
SHORT = ("Crypt-Local", "Alias-Crypt")  # those that every run tries whole; of the others it tries one family of cases
SHORT_CASES = "folder_cases"
MISSING = {
    "Crypt-S3": {"a_write_does_not_replace_a_folder"},  # the tree looks for the folder
    "Crypt-Alias": NOT_BEHIND_AN_ALIAS,
}


def list_runs() -> Iterator[Any]:
    for scene in SCENES:
        driver, _, below = scene.partition("-")
        for name in suite.list_cases(driver, MISSING.get(scene, ())):
            module = suite.CASES[name].function.__module__.rpartition(".")[2]
            if scene in FULL_SCENES or module in ABOUT_NAMES:
                marks = [pytest.mark.driver(driver, f"over {below}")]
                if scene not in SHORT and module != SHORT_CASES:
                    marks.append(pytest.mark.long)
                yield pytest.param(scene, name, id=f"{scene}-{name}", marks=marks)


def encrypted_on_disk(folder: Path) -> suite.Server:
    """A Crypt whose files are in a folder of this machine."""

    async def fill(driver: Any, path: str, names: Sequence[str]) -> None:
        await driver.makedirs(TreePath(path))
        await put(driver, f"{path}/seed")
        remote = driver.remote
        first = folder / remote.names.encrypt_path(TreePath(path) / "seed", False)[1:]
        for name in names:
            os.link(first, first.parent / remote.names.encrypt(name, False))
        first.unlink()

    return suite.Server(fill)


@pytest.fixture
def scene(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(("scene", "case"), [*list_runs()], indirect=["scene"])
def test_contract(request: pytest.FixtureRequest, scene: str, case: str, tmp_path: Path) -> None:
    async def start() -> Driver:
        tree = Tree()
        await SCENES[scene](tree, tmp_path, request)
        driver: Driver = tree.hand_over("/top")
        return driver

    is_plain = scene in MODES
    suite.run(start, case, encrypted_on_disk(tmp_path / "disk" / "side") if is_plain else suite.Server())
