"""Kill the service while it makes an archive: the archive is whole all the same, and there once."""

from __future__ import annotations

import tarfile
from io import BytesIO
from random import Random
from typing import Any
from zipfile import ZipFile

import httpx
import pytest

from mangrove.core import checkpoints
from tests.crash import harness, trees
from tests.crash.harness import World
from tests.crash.jobs import Job, make_model
from tests.support.origin import Origin
from tests.support.service import Client

LARGE = 24 << 20  # bytes; two files are several parts
_rng = Random(5)
CHECKPOINTS = [name for name in checkpoints.NAMES if name.startswith("compress.")]


class CompressJob(Job):
    """An archive that is made of a folder; the test itself reads it."""

    def _ask(self, client: Client, web: Origin, target: str) -> dict[str, Any]:
        assert self.source is not None
        ends = {"src_dir": f"{self.source.mount}/{self.source_dir}", "dst_dir": target}
        return client.post("/api/fs/archive/compress", **ends, names=[self.name], name=self.arrives)

    def check_done(self) -> None:
        assert self.here() == self.held
        assert set(self.target.tree(self.target_dir)) == {"", self.arrives}


def read(content: bytes, name: str) -> dict[str, bytes]:
    """The files of an archive, which is not damaged."""
    if name.endswith(".zip"):
        with ZipFile(BytesIO(content)) as file:
            assert file.testzip() is None
            return {info.filename: file.read(info) for info in file.infolist() if not info.is_dir()}
    with tarfile.open(fileobj=BytesIO(content), mode="r:gz") as tar:
        bodies = {member.name: tar.extractfile(member) for member in tar if member.isfile()}
        return {path: body.read() for path, body in bodies.items() if body is not None}


@pytest.mark.long
@pytest.mark.parametrize(("name", "target"), [("x.zip", "bucket"), ("x.tar.gz", "second")])
@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_archive_is_whole_after_the_service_was_killed(world: World, checkpoint: str, name: str, target: str) -> None:
    world.clear()
    files = {
        "a/one.bin": trees.unlike(_rng, LARGE),
        "two.bin": trees.unlike(_rng, LARGE),
        "a/b/small": b"s",
        "zero": b"",
    }
    tree = trees.parents({"": None, **files})
    source, side = world.backends["files"], world.backends[target]
    side.put("to", None)
    for path, body in tree.items():
        source.put(f"from/top/{path}" if path else "from/top", body)
    job = CompressJob("compress", source, side, "from", "to", "top", name, {}, held=make_model(tree))
    harness.stop_at(world, job, checkpoint)
    world.settle(job.kinds)
    world.check_done([job])
    url = world.client.ok("/api/fs/get", path=f"{side.mount}/to/{name}")["raw_url"]
    content = httpx.get(url, follow_redirects=True, trust_env=False, timeout=60).content
    assert read(content, name) == {f"top/{path}": body for path, body in files.items()}
