"""The power is cut at the moment of the acknowledgement: every file is complete on the disk."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.crash import power
from tests.crash.backends import Disk, Model
from tests.crash.jobs import differences, make_model
from tests.crash.power import PowerDisk
from tests.crash.trees import Tree, parents
from tests.support.service import Client, run_forked

pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("power"),
    pytest.mark.skipif(bool(power.find_missing()), reason=power.find_missing() or "there are disks here"),
]

FILES = 1001
LARGE = 12 << 20  # bytes; stored in parts
WAIT_SECONDS = 60.0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[PowerDisk]:
    made = PowerDisk(tmp_path / "power", 160)
    yield made
    made.close()


def make_tree(rng: Random) -> Tree:
    tree: Tree = {f"d{number % 13}/e{number % 3}/f{number}": rng.randbytes(200 + number) for number in range(FILES - 1)}
    return parents({**tree, "large": rng.randbytes(LARGE)})


def mount(client: Client, path: str, root: Path) -> Disk:
    root.mkdir(parents=True)
    options = {"root_folder_path": str(root), "show_hidden": True}
    client.ok("/api/admin/storage/create", mount_path=path, driver="Local", addition=json.dumps(options))
    return Disk(path, root)


def wait_until_done(client: Client, verb: str) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while client.get(f"/openlist/api/task/{verb}/undone")["data"]:
        assert time.monotonic() < end
        time.sleep(0.01)
    (row,) = client.get(f"/openlist/api/task/{verb}/done")["data"]
    assert (row["state"], row["error"]) == (2, "")


@pytest.mark.parametrize("place", ["elsewhere", "there too"])
@pytest.mark.parametrize("verb", ["move", "copy"])
def test_what_is_said_to_be_moved_or_copied_survives_a_power_cut(
    tmp_path: Path, disk: PowerDisk, verb: str, place: str
) -> None:
    tree = make_tree(Random(1))
    expected = make_model(tree)
    with run_forked(tmp_path / "data") as service:
        client = service.client()
        source = mount(client, "/source", (tmp_path if place == "elsewhere" else disk.root) / "source")
        mount(client, "/target", disk.root / "target")
        for path, body in tree.items():
            source.put(f"top/{path}" if path else "top", body)
        os.sync()
        client.ok(f"/api/fs/{verb}", src_dir="/source", dst_dir="/target", names=["top"])
        wait_until_done(client, verb)
        cut = disk.cut_power()
        left = source.tree("top")
        assert left == (expected if verb == "copy" else {})
    with disk.after_power_cut(cut) as root:
        check_survived(expected, Disk("", root / "target").tree("top"))


def check_survived(expected: Model, present: Model) -> None:
    assert present == expected, differences(expected, present)


def test_what_is_put_survives_a_power_cut(tmp_path: Path, disk: PowerDisk) -> None:
    rng = Random(2)
    bodies = {f"new/folder{number % 2}/f{number}": rng.randbytes(300 + number) for number in range(40)}
    with run_forked(tmp_path / "data") as service:
        client = service.client()
        mount(client, "/target", disk.root / "target")
        os.sync()
        for path, body in bodies.items():
            assert client.put(f"/target/{path}", body)["code"] == 200
        cut = disk.cut_power()
    with disk.after_power_cut(cut) as root:
        check_survived(make_model(parents(dict(bodies))), Disk("", root / "target").tree(""))
