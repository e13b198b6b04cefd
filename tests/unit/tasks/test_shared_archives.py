"""Archives of shared folders that tasks make for visitors."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import AccessDenied, ResourceNotFound, TooMany
from mangrove.identity.rights import Right
from mangrove.records import share_links
from mangrove.records.tasks.model import Task
from mangrove.tasks.compress import packing_step, selections
from mangrove.tasks.core import steps
from mangrove.tasks.core.model import State
from mangrove.tree.access import PathAccess
from mangrove.tree.operations import packing
from mangrove.tree.sharing import downloads as shared_downloads
from mangrove.tree.sharing import visits
from mangrove.web import zip_links, zips
from mangrove.web.zip_links import ZipAddress
from tests.support.task_env import ALL_RIGHTS, Disk, TaskEnv
from tests.unit.tasks.copying import SUCCEEDED
from tests.unit.tasks.test_compress import FILES, LARGE, put_all, read

ID, SOURCE = "s", "192.0.2.1"
INNER = {path.removeprefix("in/"): body for path, body in FILES.items() if path.startswith("in/")}


class Offer:
    """A share link of the folder `in` of a disk, whose archives are too large for an answer."""

    def __init__(self, task_env: TaskEnv) -> None:
        self.task_env = task_env
        self.disk: Disk = task_env.disk()
        put_all(self.disk)
        self.create(ID, "in")

    def create(self, id: str, *names: str, **fields: Any) -> None:
        files = [f"{self.disk.mount}/{name}" for name in names]
        share_links.create(id, owner=self.task_env.user.id, files=files, **fields)

    def visit(self, path: str = ID, source: str = SOURCE) -> PathAccess:
        return self.task_env.do(visits.open_shared(TreePath(f"/@s/{path}"), "", Right.READ, source))

    def ask(self, *names: str, path: str = ID, source: str = SOURCE) -> ZipAddress:
        return self.task_env.do(zip_links.make_shared_link(self.visit(path, source), names, "http://here"))

    def begin(self, *names: str, path: str = ID) -> Task:
        task = self.ask(*names, path=path).task
        assert task is not None
        return task

    def read(self, task: Task, name: str) -> dict[str, bytes]:
        return read(name, (self.task_env.folder / "staging" / task.id / name).read_bytes())


@pytest.fixture
def offer(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> Offer:
    monkeypatch.setattr(platform(), "max_file_bytes", 100_000)
    return Offer(task_env)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part has a few blocks, and each step ends after one."""
    monkeypatch.setattr(packing_step, "PART_BYTES", 100_000)
    monkeypatch.setattr(packing, "SMALL_FILE_BYTES", 1000)
    monkeypatch.setattr(steps.Run, "has_time", lambda run: False)


def test_selection_of_a_visitor_that_fits_is_no_task(offer: Offer) -> None:
    link = offer.ask("a.txt", "deep")
    assert (link.task, link.url) == (None, f"http://here/sd/{ID}/?zip=&names=a.txt&names=deep")


def test_folder_too_large_for_an_answer_is_packed_for_a_visitor(offer: Offer) -> None:
    link = offer.ask()
    assert link.task is not None
    assert link.url == f"http://here/sd/{ID}/?zip={link.task.id}"
    assert link.task.owner == offer.task_env.user.id
    assert offer.disk.mount not in link.task.view.name and f"/@s/{ID}" in link.task.view.name
    offer.task_env.run_all()
    assert offer.task_env.view(link.task) == SUCCEEDED
    assert offer.read(link.task, "in.zip") == INNER


def test_selection_of_several_shared_entries_is_packed(offer: Offer) -> None:
    offer.create("several", "in", "z.txt", "in/a.txt", password="p")
    access = offer.task_env.do(visits.open_shared(TreePath("/@s/several"), "p", Right.READ, SOURCE))
    whole = offer.task_env.do(zip_links.make_shared_link(access, (), "http://here"))
    selected = offer.task_env.do(zip_links.make_shared_link(access, ("z.txt", "in"), "http://here"))
    assert whole.task is not None and selected.task is not None
    assert parse_qs(urlsplit(whole.url).query) == {"zip": [whole.task.id], "pwd": ["p"]}
    offer.task_env.run_all()
    inner = {f"in/{path}": body for path, body in INNER.items()}
    assert offer.read(whole.task, "several.zip") == inner | {"z.txt": b"z", "a.txt": b"a"}
    assert offer.read(selected.task, "several.zip") == inner | {"z.txt": b"z"}


@pytest.mark.parametrize("state", ["Plan", "Pack"])
@pytest.mark.parametrize("end", ["disabled", "right", "owner", "rule", "mode", "another"])
def test_task_of_a_visitor_ends_with_the_share(offer: Offer, small_parts: None, state: str, end: str) -> None:
    task_env = offer.task_env

    def replace() -> None:
        share_links.delete(ID)
        offer.create(ID, "in")

    changes: dict[str, Callable[[], object]] = {
        "disabled": lambda: share_links.change(ID, disabled=True),
        "right": lambda: task_env.may(ALL_RIGHTS & ~Right.SHARE),
        "owner": lambda: task_env.may(ALL_RIGHTS, disabled=True),
        "rule": lambda: task_env.rule(f"{offer.disk.mount}/in", read_users=[task_env.user.id + 1], read_users_sub=True),
        "mode": lambda: share_links.change(ID, mode="drop"),
        "another": replace,
    }
    task = offer.begin()

    def before(visited: str, nth: int) -> None:
        if (visited, nth) == (state, 0 if state == "Plan" else 2):
            changes[end]()

    task_env.run(task, before)
    task_env.may(ALL_RIGHTS, disabled=False)
    assert task_env.view(task)[0] == State.FAILED
    folder = task_env.folder / "staging" / task.id
    assert not (folder / "in.zip").exists()
    with pytest.raises(ResourceNotFound):  # its visitor learns of the end
        task_env.do(selections.load_selection(task.id))


def test_entries_that_a_rule_locks_meanwhile_are_left_out(offer: Offer, small_parts: None) -> None:
    task = offer.begin()

    def before(state: str, nth: int) -> None:
        if (state, nth) == ("Pack", 0):
            offer.task_env.rule(f"{offer.disk.mount}/in/deep", password="key", p_sub=True)

    offer.task_env.run(task, before)
    assert offer.task_env.view(task) == SUCCEEDED
    assert set(offer.read(task, "in.zip")) == {"a.txt", "large.bin"}


def test_file_that_fails_is_replaced_by_a_text_without_its_reason(offer: Offer, small_parts: None) -> None:
    task = offer.begin()

    def before(state: str, nth: int) -> None:
        if (state, nth) == ("Pack", 3):
            offer.disk.put("in/large.bin", LARGE[:-1])

    offer.task_env.run(task, before)
    assert offer.task_env.view(task) == SUCCEEDED
    files = offer.read(task, "in.zip")
    assert files["large.bin.error.txt"] == b"the file cannot be read\n"
    assert "large.bin" not in files


def test_limits_of_an_archive_apply_to_visitors(offer: Offer) -> None:
    task = offer.begin()
    offer.task_env.set(zip_max_files="2")
    offer.task_env.run_all()
    assert offer.task_env.view(task) == (State.FAILED, "more than 2 files and folders are too many for an archive")


def test_archives_of_an_address_and_of_a_share_are_bounded(offer: Offer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_downloads, "MAX_ARCHIVES_PER_SENDER", 2)
    monkeypatch.setattr(shared_downloads, "MAX_ARCHIVES_PER_SHARE", 3)
    assert offer.begin().id != offer.begin().id
    with pytest.raises(TooMany, match="too many archives"):
        offer.begin()
    assert offer.ask("a.txt").task is None, "one that fits is not counted"
    assert offer.ask(source="192.0.2.2").task is not None
    with pytest.raises(TooMany):
        offer.ask(source="192.0.2.3")
    offer.create("other", "in")
    assert offer.begin(path="other")


def test_drop_link_gives_no_archive(offer: Offer) -> None:
    offer.create("drop", "in", mode="drop")
    with pytest.raises(AccessDenied):
        offer.ask(path="drop")
    assert offer.task_env.started == []


def test_archive_is_given_through_its_own_share_link(offer: Offer) -> None:
    task = offer.begin()
    offer.task_env.run_all()
    offer.create("other", "in")
    with pytest.raises(ResourceNotFound, match="the link has ended"):
        offer.task_env.do(zips.serve_shared_archive("other", "", SOURCE, task.id))
    with pytest.raises(ResourceNotFound):
        offer.task_env.do(zips.serve_shared_archive(ID, "", SOURCE, f"{random.Random(0).getrandbits(80):021}"[:21]))
    with pytest.raises(ResourceNotFound):
        offer.task_env.do(zips.serve_shared_archive(ID, "", SOURCE, "../selection"))
    with pytest.raises(ResourceNotFound, match="try again later"):
        offer.task_env.do(zips.serve_shared_archive(ID, "", SOURCE, offer.begin().id))
