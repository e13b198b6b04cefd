"""The storage of a path, and the state of its driver."""

from __future__ import annotations

import asyncio

import pytest

from mangrove import configuration
from mangrove.core import runtime
from mangrove.core.paths import TreePath
from mangrove.core.problems import (
    EntryNotFound,
    NotSupported,
    StorageForbidden,
    StorageProblem,
    StorageUnavailable,
    Unreachable,
)
from mangrove.core.shared_memory import SharedMemory, Topic
from mangrove.drivers.base import Entry
from mangrove.drivers.observed import observe
from mangrove.records import storages
from mangrove.tree import mounts
from mangrove.tree.mount_table import MountTable
from mangrove.tree.mounts import DISABLED, WORKING, Mount, Mounts, StoragePath, select_mount
from tests.support.sharing import share_memory
from tests.unit.tree.builders import mount
from tests.unit.tree.environment import TreeEnv
from tests.unit.tree.memory_folders import MemoryFolders

P = TreePath


def table(*mounts: Mount | str) -> MountTable:
    return MountTable(1, [mount(spec) if isinstance(spec, str) else spec for spec in mounts])


@pytest.mark.parametrize(
    ("path", "mounted", "inner"),
    [
        ("/a", "/a", "/"), ("/a/x", "/a", "/x"), ("/a/b", "/a/b", "/"), ("/a/b/c/d", "/a/b", "/c/d"),
        ("/a/bc", "/a", "/bc"), ("/a/b.balance", "/a", "/b.balance"), ("/d/e/f", "/d/e", "/f"),
    ],
)  # fmt: skip
def test_the_longest_mount_path_holds_a_path(path: str, mounted: str, inner: str) -> None:
    chosen_mount, rest = select_mount(table("/a", "/a/b", "/d/e"), P(path))
    assert (chosen_mount.storage.mount_path, rest) == (mounted, inner)


def test_a_storage_at_the_root_holds_what_no_other_does() -> None:
    tree = table("/", "/a")
    assert select_mount(tree, P("/x/y"))[1] == "/x/y"
    assert select_mount(tree, P("/a/y"))[1] == "/y"
    assert list(tree.find_virtual_folders(P("/"))) == ["a"]


@pytest.mark.parametrize("path", ["/x", "/ab", "/d", "/"])
def test_where_nothing_is_mounted_there_is_no_storage(path: str) -> None:
    with pytest.raises(StorageProblem, match="storage not found"):
        select_mount(table("/a", "/d/e"), P(path))


def test_balanced_storages_are_one_folder_and_take_turns() -> None:
    tree = table("/disk.balance1", "/disk", "/disk.balance", "/other")
    assert sorted(tree.find_virtual_folders(P("/"))) == ["disk", "other"]
    chosen = [select_mount(tree, P("/disk/x")) for _ in range(6)]
    assert {inner for _, inner in chosen} == {"/x"}
    names = [chosen_mount.storage.mount_path for chosen_mount, _ in chosen]
    assert names[:3] == names[3:]
    assert set(names) == {"/disk", "/disk.balance", "/disk.balance1"}
    with pytest.raises(StorageProblem):
        select_mount(tree, P("/disk.balance1/x"))


def test_virtual_folders_lead_to_mounts() -> None:
    tree = table("/a/b/c", "/a/b/d", "/a/e", "/f")
    assert list(tree.find_virtual_folders(P("/"))) == ["a", "f"]
    assert list(tree.find_virtual_folders(P("/a"))) == ["b", "e"]
    assert list(tree.find_virtual_folders(P("/a/b"))) == ["c", "d"]
    for path in ("/a/b/c", "/f", "/x", "/a/bb"):
        assert tree.find_virtual_folders(P(path)) == {}
    assert tree.ancestors == {"/", "/a", "/a/b"}


def test_virtual_folders_come_in_the_order_of_the_storages() -> None:
    tree = table(mount("/z", order=1), mount("/a", order=2), mount("/m/x", order=3), mount("/m/a", order=0))
    assert list(tree.find_virtual_folders(P("/"))) == ["m", "z", "a"]
    assert tree.find_virtual_folders(P("/"))["m"].storage.mount_path == "/m/a"


def test_a_location_moves_inside_its_storage() -> None:
    storage_path = StoragePath(MemoryFolders(), P("/a/b"), mount())
    assert storage_path.child("c") == storage_path.with_path(P("/a/b/c"))
    assert storage_path.child("c").parent == storage_path
    assert storage_path.with_path(P("/")).parent.path == "/"


def test_table_follows_records_and_keeps_valid_drivers(tree: TreeEnv) -> None:
    tree.mount_disk("/a", "file")
    running = tree.run(tree.access("/a").locate())
    removed = tree.mount_disk("/b", "file")
    stopped = tree.run(tree.access("/b").locate())
    assert tree.run(tree.access("/a").locate()) == running
    storages.delete(tree.run(mounts.ready()).by_path["/b"][0].storage.id)
    tree.set(site_title="x")
    table = tree.run(mounts.ready())
    assert list(table.by_path) == ["/a"]
    assert tree.run(tree.access("/a").locate()) == running
    assert stopped.mount.driver is None
    assert removed.exists()


def test_a_changed_storage_gets_a_new_driver_and_a_disabled_one_none(tree: TreeEnv) -> None:
    storage = tree.mount("/disk", options={"root_folder_path": str(tree.folder)})
    before = tree.run(tree.access("/disk").locate())
    storages.change(storage.id, addition=storage.addition.replace("}", ', "show_hidden": false}'))
    tree.set(site_title="x")
    after = tree.run(tree.access("/disk").locate())
    assert after.mount is not before.mount
    assert before.mount.driver is None
    storages.change(storage.id, disabled=True)
    tree.set(site_title="y")
    assert tree.run(mounts.ready()).mounts == []
    assert tree.run(mounts.start(storage.id)) == DISABLED


def test_drivers_restart_after_restart_in_other_process(tree: TreeEnv) -> None:
    here, there = share_memory(2)
    tree.mount_disk("/disk", "file")
    runtime.put(SharedMemory, here)
    configuration.reload()
    before = tree.run(tree.access("/disk").locate()).driver
    there.changes.bump_all()  # another process died
    assert tree.run(tree.access("/disk").locate()).driver is before
    there.changes.bump(Topic.DRIVERS)
    after = tree.run(tree.access("/disk").locate()).driver
    assert after is not before
    tree.run(mounts.restart())
    own = tree.run(tree.access("/disk").locate()).driver
    assert own is not after
    assert tree.run(tree.access("/disk").locate()).driver is own


def test_a_storage_that_does_not_start_says_why_and_the_others_work(tree: TreeEnv) -> None:
    broken = tree.mount("/broken", options={"root_folder_path": str(tree.folder / "<none>")})
    tree.mount_disk("/disk", "file")
    tree.run(mounts.load())
    assert tree.run(mounts.ready()).by_path["/disk"][0].status == WORKING
    status = storages.get(broken.id).status
    assert status not in ("", WORKING)
    assert "<" not in status
    (tree.folder / "<none>").mkdir()
    assert tree.run(mounts.start(broken.id)) == WORKING
    assert storages.get(broken.id).status == WORKING


@pytest.mark.parametrize(("driver", "addition"), [("Nonsense", {}), ("UrlTree", {"url_structure": 5})])
def test_storage_that_cannot_start_is_unavailable(tree: TreeEnv, driver: str, addition: dict[str, object]) -> None:
    tree.mount("/broken", driver, options=addition)
    with pytest.raises(StorageUnavailable, match=r"^storage status: .+: storage not init$") as refusal:
        tree.run(tree.access("/broken/x").locate())
    assert not isinstance(refusal.value, NotSupported)
    assert refusal.value.with_prefix("failed").message.startswith("failed: storage status: ")


def test_a_driver_that_checks_its_status_is_unavailable_until_it_works(tree: TreeEnv) -> None:
    tree.mount("/links", "UrlTree", options={"url_structure": "nonsense"})
    for _ in range(2):
        with pytest.raises(StorageUnavailable):
            tree.run(tree.access("/links").locate())


class Reachable(MemoryFolders):
    """A storage that answers unless it has a problem; `calls`: what reached the driver."""

    problem: StorageProblem | None = None
    calls = 0

    async def stat(self, path: TreePath) -> Entry:
        self.calls += 1
        if self.problem is not None:
            raise self.problem
        return Entry(path.name, 0, 1.0, True)


def test_status_of_a_storage_follows_its_last_use(tree: TreeEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """C6: a storage with a dead server kept the status "work"."""
    monkeypatch.setattr(mounts, "STATUS_SECONDS", 0.05)
    tree.mount_disk("/disk")
    (mount,) = tree.run(mounts.ready()).mounts
    stored: list[str] = []
    set_status = storages.set_status
    monkeypatch.setattr(storages, "set_status", lambda id, text: (stored.append(text), set_status(id, text))[1])

    async def use() -> None:
        driver = Reachable()
        observe(driver, mount.note_use)
        mount.driver, mount.status = driver, WORKING
        await mount._try_to_store_status()
        for problem, status in (
            (EntryNotFound(), WORKING),
            (StorageForbidden(), WORKING),
            (Unreachable("<dead>"), "&lt;dead&gt;"),
        ):
            driver.problem = problem
            for _ in range(50):
                with pytest.raises(type(problem)):
                    await driver.stat(P("/x"))
            assert mount.status == status
        async with asyncio.timeout(120):
            while "&lt;dead&gt;" not in stored:  # noqa: ASYNC110  # nothing says when
                await asyncio.sleep(0.01)
        driver.problem = None  # and it is not used
        async with asyncio.timeout(120):
            while mount.checking is not None and not mount.checking.done():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert (mount.status, mount.storage.status) == (WORKING, WORKING)
        assert stored[-2:] == ["&lt;dead&gt;", WORKING]
        assert driver.calls < 160

    tree.run(use())
    assert storages.get(mount.storage.id).status == WORKING


def test_storage_without_answer_at_start_is_restarted_on_use(tree: TreeEnv) -> None:
    tree.mount_disk("/disk", "file")
    (mount,) = tree.run(mounts.ready()).mounts
    answers = [Unreachable(), Unreachable(), None]

    class Slow(MemoryFolders):
        async def start(self) -> None:
            await asyncio.sleep(0)
            problem = answers.pop(0)
            if problem is not None:
                raise problem

    mount.driver, mount.is_unreachable = Slow(), True

    async def use_together() -> set[str]:
        await asyncio.gather(*(mount.get_driver() for _ in range(5)))
        return {mount.status}

    assert tree.run(use_together()) == {Unreachable.text}
    assert tree.run(use_together()) == {Unreachable.text}
    assert len(answers) == 1, "who waits for a start shares it"
    assert tree.run(use_together()) == {WORKING}
    assert storages.get(mount.storage.id).status == WORKING
    assert tree.run(use_together()) == {WORKING}


def test_a_driver_that_does_not_stop_holds_nobody_up(tree: TreeEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "STOP_SECONDS", 0.01)

    class Stuck(MemoryFolders):
        async def stop(self) -> None:
            await asyncio.Event().wait()

    stuck = [mount(f"/{name}") for name in "abc"]
    for stuck_mount in stuck:
        stuck_mount.driver = Stuck()
    runtime.get(Mounts).table = MountTable(1, stuck)
    tree.run(mounts.close())
    assert {stuck_mount.driver for stuck_mount in stuck} == {None}


def test_drivers_reach_other_storages_through_the_resolver(tree: TreeEnv) -> None:
    tree.mount_disk("/a/disk", "d/file")
    tree.run(mounts.ready())
    resolver = mounts.MountResolver()
    driver, path = tree.run(resolver.resolve(P("/a/disk/d/file")))
    assert (driver.name, path) == ("Local", "/d/file")
    assert resolver.folders(P("/a")) == ["disk"]
    with pytest.raises(StorageProblem):
        tree.run(resolver.resolve(P("/b")))


def test_capacity_is_asked_where_a_storage_knows_it(tree: TreeEnv) -> None:
    tree.mount_disk("/disk")
    tree.mount("/links", "UrlTree", options={"url_structure": ""})
    tree.mount("/broken", options={"root_folder_path": str(tree.folder / "none")})
    capacities = {
        path: tree.run(mounts.get_capacity(here[0])) for path, here in tree.run(mounts.ready()).by_path.items()
    }
    space = capacities.pop("/disk")
    assert space is not None
    assert space.total > 0
    assert capacities == {"/links": None, "/broken": None}


def test_a_runtime_of_its_own_has_mounts_of_its_own(tree: TreeEnv) -> None:
    tree.mount_disk("/disk")
    tree.run(mounts.ready())
    assert runtime.get(Mounts).table.version >= 0
    with runtime.use(runtime.Runtime()):
        assert runtime.get(Mounts).table.mounts == []
