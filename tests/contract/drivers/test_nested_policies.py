"""An Alias over two Crypts, policy by policy; storages that are balanced, below a Crypt and above one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, StorageForbidden, StorageProblem
from tests.contract.drivers.actions import content, exists, names, put
from tests.contract.drivers.trees import Tree

P = TreePath
Outcome = str | type[StorageProblem]
# what a write policy does with an entry of which no, one or two storages have a copy: where it is gone after a removal
COPIES = ("", "1", "12")
WRITE_POLICIES: dict[str, tuple[Outcome, Outcome, Outcome]] = {
    "disabled": (StorageForbidden, StorageForbidden, StorageForbidden),
    "first": ("", "1", "1"),
    "deterministic": ("", "1", StorageProblem),
    "deterministic_or_all": ("", "1", "12"),
    "all": ("", "1", "12"),
    "all_strict": ("", StorageProblem, "12"),
}
# the same of an upload into a folder: which of the storages have the file afterwards; ? one of them
PUT_POLICIES: dict[str, tuple[Outcome, Outcome, Outcome]] = {
    **{policy: (none or EntryNotFound, first, two) for policy, (none, first, two) in WRITE_POLICIES.items()},
    "random": (EntryNotFound, "1", "?"),
    "quota": (EntryNotFound, "1", "?"),
    "quota_strict": (EntryNotFound, "1", "?"),
}


async def make_alias(tree: Tree, folder: Path, **options: Any) -> Any:
    for number in "12":
        (folder / number).mkdir()
        await tree.mount(f"/disk{number}", "Local", root_folder_path=str(folder / number), show_hidden=True)
        await tree.crypt(f"/crypt{number}", f"/disk{number}", password=f"pass{number}")
    return await tree.mount("/alias", "Alias", paths="one:/crypt1\none:/crypt2", **options)


async def where(tree: Tree, path: str) -> str:
    """The Crypts that have it."""
    return "".join([number for number in "12" if await exists(tree.mounts[f"/crypt{number}"][0], path)])


async def check(work: Any, outcome: Outcome) -> None:
    """That it is done, or fails as the policy says."""
    if isinstance(outcome, str):
        await work
    else:
        with pytest.raises(outcome):
            await work


@pytest.mark.parametrize("copies", COPIES)
@pytest.mark.parametrize("policy", WRITE_POLICIES)
def test_a_write_policy_chooses_the_copies_that_are_changed(tmp_path: Path, policy: str, copies: str) -> None:
    outcome = WRITE_POLICIES[policy][len(copies)]

    async def go() -> None:
        tree = Tree()
        alias = await make_alias(tree, tmp_path, write_conflict_policy=policy)
        for number in copies:
            await put(tree.mounts[f"/crypt{number}"][0], "/f", b"x")
        await check(alias.remove(P("/f")), outcome)
        gone = outcome if isinstance(outcome, str) else ""
        assert await where(tree, "/f") == "".join(number for number in copies if number not in gone)

    asyncio.run(go())


@pytest.mark.parametrize("copies", COPIES)
@pytest.mark.parametrize("policy", PUT_POLICIES)
def test_a_put_policy_chooses_the_folders_that_a_file_goes_to(tmp_path: Path, policy: str, copies: str) -> None:
    outcome = PUT_POLICIES[policy][len(copies)]

    async def go() -> None:
        tree = Tree()
        alias = await make_alias(tree, tmp_path, put_conflict_policy=policy)
        for number in copies:
            await tree.mounts[f"/crypt{number}"][0].makedirs(P("/d"))  # type: ignore[attr-defined]
        await check(put(alias, "/d/f", b"x"), outcome)
        place = await where(tree, "/d/f")
        if outcome == "?":
            assert place in ("1", "2")
        else:
            assert place == (outcome if isinstance(outcome, str) else "")
        if place:
            assert await content(alias, "/d/f") == b"x"

    asyncio.run(go())


async def mount_replicas(tree: Tree, folder: Path) -> None:
    """Two storages that take turns at `/disk`."""
    for number in "12":
        (folder / number).mkdir(exist_ok=True)
        await tree.mount("/disk", "Local", root_folder_path=str(folder / number), show_hidden=True)


@pytest.mark.parametrize("folders", ["true", "false"])
def test_a_crypt_over_balanced_storages_changes_what_it_found(tmp_path: Path, folders: str) -> None:
    """A rename, a move and a copy stay in the storage that has the file, whichever has the next turn."""

    async def go() -> None:
        tree = Tree()
        await mount_replicas(tree, tmp_path)
        crypt = await tree.crypt("/crypt", "/disk", directory_name_encryption=folders)
        for disk in tree.mounts["/disk"]:  # the same in both, as in replicas
            alone = Tree()
            alone.mounts["/disk"] = [disk]
            driver = await alone.crypt("/crypt", "/disk", directory_name_encryption=folders)
            await driver.makedirs(P("/d"))
            for name in "abc":
                await put(driver, f"/{name}", name.encode())
        for turn in range(4):
            assert await content(crypt, "/a") == b"a"
            tree.turns += turn
        await crypt.copy(P("/a"), P("/d/a"))
        await crypt.move(P("/b"), P("/d/b"))
        await crypt.rename(P("/c"), P("/e"))

    asyncio.run(go())


def test_crypts_that_are_balanced_are_used_in_turns(tmp_path: Path) -> None:
    async def go() -> None:
        tree = Tree()
        for number in "12":
            (tmp_path / number).mkdir()
            await tree.mount(f"/disk{number}", "Local", root_folder_path=str(tmp_path / number), show_hidden=True)
            crypt = await tree.crypt("/crypt", f"/disk{number}", password=number)
            await put(crypt, f"/only{number}", b"x")
        alias = await tree.mount("/alias", "Alias", paths="/crypt")
        seen = {tuple(await names(alias, "/")) for _ in range(4)}
        assert seen == {("only1",), ("only2",)}

    asyncio.run(go())
