"""Looks into archives are bounded: in time, and in how many files are sent at once."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path

import pytest

from mangrove.drivers.base import DriverContext
from mangrove.drivers.local.driver import Local
from mangrove.paths import TreePath
from mangrove.problems import ArchiveTooLarge, TooMany
from mangrove.site.values import Settings
from mangrove.tree import archives
from mangrove.tree.downloads import Download
from mangrove.tree.mounts import Located
from tests.unit.archives.packing import FILES, tarred, zipped
from tests.unit.tree.builders import mount


async def file(folder: Path, name: str) -> Download:
    driver = Local(Local.Options(root_folder_path=str(folder)), DriverContext())
    await driver.start()
    path = TreePath(f"/{name}")
    return Download(path, Located(driver, path, mount("/")), Settings({}))


def test_an_archive_in_which_nothing_is_found_for_long_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.tgz").write_bytes(gzip.compress(tarred({"zeros": bytes(50_000_000), "late": b"1"}), 1))
    monkeypatch.setattr(archives, "LOOKUP_SECONDS", 0.01)

    async def late() -> None:
        with pytest.raises(ArchiveTooLarge, match="takes too long"):
            await archives.open_member(await file(tmp_path, "x.tgz"), "late", "")

    asyncio.run(late())


def test_a_slow_reader_counts_until_its_stream_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.zip").write_bytes(zipped(FILES))
    monkeypatch.setattr(archives, "WAIT_SECONDS", 0.01)

    async def crowd() -> None:
        wanted = await file(tmp_path, "x.zip")
        slow = [await archives.open_member(wanted, "big.bin", "") for _ in range(archives.OPEN_MEMBERS)]
        with pytest.raises(TooMany, match="at once"):
            await archives.open_member(wanted, "a/b.txt", "")
        await slow.pop().aclose()
        assert (
            b"".join([block async for block in await archives.open_member(wanted, "a/b.txt", "")]) == FILES["a/b.txt"]
        )
        for one in slow:
            await one.aclose()
        await (await archives.open_member(wanted, "empty", "")).aclose()

    asyncio.run(crowd())
