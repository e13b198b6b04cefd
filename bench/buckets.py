"""A folder of 1,000,000 objects in a bucket, page by page; the bucket is in this process and answers after 25 ms."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any

from bench.environment import Environment
from bench.memory import Growth
from bench.table import work
from mangrove.core.paths import TreePath
from mangrove.drivers.base import Entry
from mangrove.drivers.paging import EntriesPage, PagedPlace
from mangrove.records.storages import Storage
from mangrove.tree.listing.paged_folder import PagedFolder
from mangrove.tree.mounts import Mount

OBJECTS, LISTED, PAGE = 1_000_000, 1000, 100
LIST_SECONDS = 0.025
PAGES = (1, 2, 5_000, 5_001, 9_999, 10_000, 3)  # that are asked for once it is known where pages begin


class Bucket:
    """Lists the objects of one folder; `asked`: how often."""

    def __init__(self) -> None:
        self.asked = 0
        self.seconds = 0.0

    async def list_page(self, path: TreePath, start: str = "", prefix: str = "") -> EntriesPage:
        self.asked += 1
        await asyncio.sleep(self.seconds)
        first = int(start or 0)
        found = [Entry(f"{number:08}.jpeg", number, 1.7e9, False) for number in range(first, first + LISTED)]
        return EntriesPage(found, str(first + LISTED) if first + LISTED < OBJECTS else "")


def _open(bucket: Bucket) -> PagedFolder:
    nothing: Any = dict.fromkeys(Storage.__dataclass_fields__, "")
    return PagedFolder(PagedPlace(bucket, TreePath("/photos")), Mount(Storage(**nothing)), 1800)


async def _read(folder: PagedFolder, page: int) -> int:
    part = await folder.read(None, None, (page - 1) * PAGE, page * PAGE)
    assert [entry.size for entry in part.entries] == list(range((page - 1) * PAGE, page * PAGE))
    return part.total


async def _browse() -> dict[str, float]:
    bucket = Bucket()
    folder = _open(bucket)
    began = time.perf_counter()
    with Growth(os.getpid()) as growth:
        for page in range(1, OBJECTS // PAGE + 1, 10):
            total = await _read(folder, page)
    walked, weight = time.perf_counter() - began, growth.bytes
    assert total == OBJECTS and bucket.asked == OBJECTS // LISTED
    bucket.seconds, most, slowest = LIST_SECONDS, 0, 0.0
    for page in PAGES:
        asked, began = bucket.asked, time.perf_counter()
        await _read(folder, page)
        most, slowest = max(most, bucket.asked - asked), max(slowest, time.perf_counter() - began)
    return {"walked": walked, "weight": weight, "most": most, "slowest": slowest}


def _measure(env: Environment, name: str) -> float:
    if "bucket walked" not in env.kept:
        env.kept |= {f"bucket {key}": value for key, value in asyncio.run(_browse()).items()}
    return env.kept[f"bucket {name}"]


def _line(name: str, factor: float = 1) -> Callable[[Environment], float]:
    return lambda env: _measure(env, name) * factor


work("1,000,000 objects, S3: LISTs of any page", "LISTs", most=2)(_line("most"))
work("the same, its slowest page", "ms", most=100)(_line("slowest", 1000))
work("the same, memory growth meanwhile", "MB", most=16)(_line("weight", 1e-6))
work("the same, all pages one after the other, no latency", "s", most=60)(_line("walked"))
