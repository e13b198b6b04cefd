"""Moves of files that are overwritten meanwhile: the last acknowledged version is at the source or at the target."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from tests.crash.backends import Fact, fact
from tests.crash.harness import World
from tests.support.service import Client

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("rewrites")]  # one world

ROUNDS = 6 if "SEEDS" in os.environ else 1
FILES = 24
LARGE = 10 << 20  # bytes; stored in parts
WRITERS = 4
STORAGE_PAIRS = [("files", "second"), ("files", "bucket"), ("bucket", "second")]


def make_body(rng: Random, name: str, version: int) -> bytes:
    """Return another content, and another size, for every version."""
    size = LARGE if name == "large" else rng.randrange(2000)
    return f"{name} {version} ".encode() + rng.randbytes(size + version)


def rewrite(client: Client, mount: str, names: list[str], last: dict[str, Fact], stop: threading.Event) -> None:
    """Overwrite the files in turns until the event is set; `last` has the acknowledged version of each."""
    rng, version = Random(names[0]), 0
    while not stop.is_set():
        version += 1
        for name in names:
            body = make_body(rng, name, version)
            answer = client.put(f"{mount}/tree/{name}", body)
            assert answer["code"] == 200, answer
            last[name] = fact(body)


@pytest.mark.parametrize(("origin", "target_name"), STORAGE_PAIRS)
def test_last_put_survives_at_source_or_target_of_move(world: World, origin: str, target_name: str) -> None:
    source, target = world.backends[origin], world.backends[target_name]
    for number in range(ROUNDS):
        world.clear()
        rng, stop = Random(number), threading.Event()
        names = ["large", *(f"f{count}" for count in range(FILES))]
        bodies = {name: make_body(rng, name, 0) for name in names}
        last = {name: fact(body) for name, body in bodies.items()}
        for name, body in bodies.items():
            source.put(f"tree/{name}", body)
        with ThreadPoolExecutor(WRITERS) as pool:
            shares = [names[first::WRITERS] for first in range(WRITERS)]
            client = [world.service.client() for _ in shares]
            writing = [
                pool.submit(rewrite, writer, source.mount, share, last, stop)
                for writer, share in zip(client, shares, strict=True)
            ]
            try:
                for _ in range(3):
                    world.client.post(
                        "/api/fs/move", src_dir=source.mount, dst_dir=target.mount, names=["tree"], overwrite=True
                    )
                    world.settle(["move"])
                    time.sleep(0.05)
            finally:
                stop.set()
            for writer in writing:
                writer.result()
        here, there = source.tree("tree"), target.tree("tree")
        lost = [name for name in names if last[name] not in (here.get(name), there.get(name))]
        assert not lost, (number, lost)
