"""SFTP on OpenSSH: links, roots, times, copies, space, power cuts, and shared connections."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryExists, EntryNotFound, StorageProblem
from mangrove.drivers.base import BLOCK, list_all, make_parts_key
from tests.contract.drivers.actions import body, content, fails, names, put, upload_of
from tests.contract.drivers.test_suite import start_driver
from tests.servers import ssh
from tests.support.proc import read_links

P = TreePath
pytestmark = [
    pytest.mark.skipif(ssh.SSHD is None, reason="sshd is not installed"),
    pytest.mark.xdist_group("openssh"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ssh.OpenSSH]:
    with ssh.openssh(tmp_path_factory.mktemp("sshd")) as server:
        yield server


def use(options: dict[str, Any], work: Callable[[Any], Awaitable[None]]) -> None:
    async def run() -> None:
        driver = await start_driver("SFTP", options)
        try:
            await work(driver)
        finally:
            await driver.stop()

    asyncio.run(run())


def test_links_are_what_they_lead_to(server: ssh.OpenSSH, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "sub").mkdir(parents=True)
    (outside / "f").write_bytes(b"four")
    root = tmp_path / "root"
    root.mkdir()
    (root / "file").symlink_to("../outside/f")
    (root / "folder").symlink_to(outside)

    async def look(driver: Any) -> None:
        entries = {entry.name: entry for entry in await list_all(driver, P("/"))}
        assert {name: (entry.size, entry.is_dir, entry.is_link) for name, entry in entries.items()} == {
            "file": (4, False, True), "folder": (0, True, True),
        }  # fmt: skip
        assert await names(driver, "/folder") == ["f", "sub"]
        assert await content(driver, "/file") == b"four"
        assert (await driver.stat(P("/file"))).size == 4
        await driver.rename(P("/file"), P("/renamed"), overwrite=False)
        await fails(driver.rename(P("/renamed"), P("/folder"), overwrite=False), EntryExists)
        await driver.makedirs(P("/d"))
        await driver.move(P("/folder"), P("/d/folder"))
        await driver.move(P("/renamed"), P("/d/file"))
        await driver.remove(P("/d"))
        assert await names(driver, "/") == []

    use(server.options(root), look)
    assert sorted(os.listdir(outside)) == ["f", "sub"]


def test_a_link_that_leads_nowhere_is_left_out_or_named(server: ssh.OpenSSH, tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")

    async def named(driver: Any) -> None:
        with pytest.raises(StorageProblem, match=r"dangling|loop"):
            await list_all(driver, P("/"))

    async def left_out(driver: Any) -> None:
        assert await names(driver, "/") == ["f"]
        await fails(driver.stat(P("/dangling")), EntryNotFound)
        await fails(driver.write(P("/dangling"), body(b"x"), replace(upload_of(b"x"), overwrite=False)), EntryExists)
        await put(driver, "/dangling", b"now a file")
        assert await names(driver, "/") == ["dangling", "f"]
        await driver.remove(P("/loop"))

    use(server.options(tmp_path), named)
    use(server.options(tmp_path, ignore_symlink_error=True), left_out)
    assert sorted(os.listdir(tmp_path)) == ["dangling", "f"]


@pytest.mark.parametrize("root", ["", ".", "sub", "./sub/", "{absolute}", "{absolute}//sub/"])
def test_a_root_may_begin_at_the_login_folder(server: ssh.OpenSSH, tmp_path: Path, root: str) -> None:
    home = tmp_path / "home"
    (home / "sub").mkdir(parents=True)
    for folder in (home, home / "sub"):
        (folder / "f").write_text(str(folder))
    (tmp_path / "sshd").mkdir()

    async def look(driver: Any) -> None:
        folder = home / "sub" if "sub" in root else home
        assert await content(driver, "/f") == str(folder).encode()
        await put(driver, "/g", b"g")
        await driver.makedirs(P("/d/e"))
        await driver.move(P("/g"), P("/d/e/g"), overwrite=False)
        assert await names(driver, "/d/e") == ["g"]
        assert (folder / "d" / "e" / "g").read_bytes() == b"g"

    with ssh.openssh(tmp_path / "sshd", f"ForceCommand internal-sftp -d {home}\n") as server:
        use(server.options(root.format(absolute=home)), look)


def test_files_keep_the_time_of_their_sender(server: ssh.OpenSSH, tmp_path: Path) -> None:
    async def store(driver: Any) -> None:
        for modified in (1_700_000_000.7, 0.0, -5.0, 2.0**33):
            entry = await driver.write(P("/f"), body(b"x"), replace(upload_of(b"x"), modified=modified))
            assert entry.modified == min(max(int(modified), 0), 2**32 - 1)
            assert await driver.stat(P("/f")) == entry
            await driver.copy(P("/f"), P("/g"))
            assert (await driver.stat(P("/g"))).modified == entry.modified

    use(server.options(tmp_path), store)


def test_the_server_copies_and_tells_its_space(server: ssh.OpenSSH, tmp_path: Path) -> None:
    written = os.urandom(40 << 20)
    (tmp_path / "f").write_bytes(written)

    async def copy(driver: Any) -> None:
        await driver.copy(P("/f"), P("/g"), overwrite=False, durable=True)
        space = await driver.get_space()
        status = os.statvfs(tmp_path)
        assert space.total == status.f_blocks * status.f_frsize

    use(server.options(tmp_path), copy)
    assert (tmp_path / "g").read_bytes() == written
    assert sorted(os.listdir(tmp_path)) == ["f", "g"]


def test_the_trials_on_openssh_leave_no_files(server: ssh.OpenSSH, tmp_path: Path) -> None:
    async def ask(driver: Any) -> None:
        assert await driver.proves_writes()
        assert os.listdir(tmp_path) == []
        assert await driver.can_refuse_existing()

    use(server.options(tmp_path), ask)
    assert os.listdir(tmp_path) == []


def test_one_of_many_concurrent_folder_renames_wins(server: ssh.OpenSSH, tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / str(number)).mkdir()

    async def race(driver: Any) -> None:
        works = [driver.rename(P(f"/{number}"), P("/new"), overwrite=False) for number in range(30)]
        results = await asyncio.gather(*works, return_exceptions=True)
        assert sorted(type(result).__name__ for result in results) == ["EntryExists"] * 29 + ["NoneType"]
        assert len(await names(driver, "/")) == 30

    use(server.options(tmp_path), race)


def test_parts_outlive_the_driver_and_a_lost_answer(server: ssh.OpenSSH, tmp_path: Path) -> None:
    written, upload = b"abcdef", upload_of(b"abcdef")

    async def begin(driver: Any) -> None:
        key = make_parts_key()
        tokens.append(await driver.begin(P("/f"), upload, key))
        await driver.abort_by_key(P("/f"), make_parts_key())
        receipts.append(await driver.write_part(P("/f"), tokens[0], 2, 3, written[3:]))
        assert tokens[0] == f".mangrove-{key}.part" and os.listdir(tmp_path) == tokens

    async def finish(driver: Any) -> None:
        receipts.append(await driver.write_part(P("/f"), tokens[0], 1, 0, written[:3]))
        entry = await driver.finish(P("/f"), tokens[0], receipts, upload)
        assert (entry.size, entry.modified) == (6, upload.modified)
        await fails(driver.finish(P("/f"), tokens[0], receipts, upload), EntryNotFound)
        await fails(driver.write_part(P("/f"), "../f", 1, 0, b"x"), EntryNotFound)
        await driver.abort(P("/f"), tokens[0])
        assert await content(driver, "/f") == written

    tokens: list[str] = []
    receipts: list[str] = []
    use(server.options(tmp_path), begin)
    server.restart()
    use(server.options(tmp_path), finish)


def test_many_calls_share_few_connections_and_unread_files_are_closed(server: ssh.OpenSSH, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"f" * (3 * BLOCK))

    async def share(driver: Any) -> None:
        await asyncio.gather(*(driver.stat(P("/f")) for _ in range(150)))
        streams = [await driver.read(P("/f")) for _ in range(20)]
        for stream in streams[:10]:
            await anext(stream)
        assert (driver._control.size, driver._data.size) == (2, 1)
        assert count_open(server, tmp_path / "f") == 20
        for stream in streams[5:10]:
            await stream.aclose()
        del streams, stream  # neither read nor closed
        while count_open(server, tmp_path / "f"):  # noqa: ASYNC110 - it is another process that closes them
            await asyncio.sleep(0.01)

    use(server.options(tmp_path), share)


def count_open(server: ssh.OpenSSH, path: Path) -> int:
    """Return how often the server has a file open."""
    return sum(link == str(path) for pid in server.list_sessions() for link in read_links(pid))
