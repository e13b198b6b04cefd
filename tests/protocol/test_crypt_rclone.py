"""Files that rclone encrypts are read here, and the other way round, in every mode."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.drivers import base
from tests.contract.drivers.actions import content, put
from tests.contract.drivers.trees import Tree
from tests.servers.rclone_crypt import RcloneCrypt, configure

P = TreePath
pytestmark = pytest.mark.xdist_group("crypt_rclone")
BLOCK = 65536
SIZES = (0, 1, BLOCK - 1, BLOCK, BLOCK + 1, (1 << 20) + 1)
NAMES = [
    "a", "with space.txt", "äöü-日本.bin", "!quoted!! 09azAZ", ".hidden", "b-v2001-02-03-040506-123.txt",
    "c-v2001-02-03-040506-123", "dots.tar.gz", "\U0001f600 ÿ\xa0", "n" * 140, "sixteen-bytes-ok",
]  # fmt: skip
STANDARD = product(["standard"], ["base64", "base32", "base32768"], ["true", "false"], ["", "second"])
OTHER_MODES = product(["obfuscate", "off"], ["base32"], ["true", "false"], ["", "second"])
MODES = [*STANDARD, *OTHER_MODES]


def use(
    folder: Path, mode: tuple[str, str, str, str], work: Callable[[Any, RcloneCrypt], Awaitable[None]], password: str
) -> None:
    names, encoding, folders, salt = mode
    (folder / "disk").mkdir()
    same = {"filename_encryption": names, "directory_name_encryption": folders, "filename_encoding": encoding}
    secrets = {"password": password} | ({"password2": salt} if salt else {})
    rclone = configure(folder / "disk", folder / "rclone.conf", **same, **secrets)

    async def go() -> None:
        tree = Tree()
        await tree.mount("/disk", "Local", root_folder_path=str(folder / "disk"), show_hidden=True)
        crypt = await tree.crypt("/c", "/disk", password=password, salt=salt, **same)
        await work(crypt, rclone)

    asyncio.run(go())


def plain_tree(folder: Path) -> dict[str, bytes]:
    """Files of all sizes and names below a folder."""
    contents = {f"sizes/{size}.bin": os.urandom(size) for size in SIZES}
    contents |= {f"name of/a folder/{name}": name.encode() for name in NAMES}
    for path, written in contents.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(written)
    return contents


@pytest.mark.parametrize("mode", MODES, ids="-".join)
def test_both_read_what_the_other_wrote(tmp_path: Path, mode: tuple[str, str, str, str]) -> None:
    plain = plain_tree(tmp_path / "plain")

    async def work(crypt: Any, rclone: RcloneCrypt) -> None:
        await asyncio.to_thread(rclone.run, "copy", str(tmp_path / "plain"), "c:theirs")
        for path, written in plain.items():
            assert await content(crypt, f"/theirs/{path}") == written
            assert (await crypt.stat(P(f"/theirs/{path}"))).size == len(written)
            await crypt.makedirs(P(f"/ours/{path}").parent)
            await put(crypt, f"/ours/{path}", written)
        listed = [entry.name for entry in await base.list_all(crypt, P("/theirs/name of/a folder"))]
        assert sorted(listed) == sorted(NAMES)
        await asyncio.to_thread(rclone.run, "cryptcheck", str(tmp_path / "plain"), "c:ours")

    use(tmp_path, mode, work, "pass wörd")


def test_ranges_cross_the_borders_of_blocks(tmp_path: Path) -> None:
    written = os.urandom(20 * BLOCK + 7)
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "f").write_bytes(written)

    async def work(crypt: Any, rclone: RcloneCrypt) -> None:
        await asyncio.to_thread(rclone.run, "copy", str(tmp_path / "plain"), "c:")
        await crypt.makedirs(P("/ours"))
        borders = [near for border in (0, 1, 14, 15, 16, 20) for near in range(border * BLOCK - 1, border * BLOCK + 2)]
        for offset in [*borders, len(written) - 1, len(written), len(written) + 5]:
            if offset >= 0:
                for length in (0, 1, 2, BLOCK, 16 * BLOCK, None):
                    stop = None if length is None else offset + length
                    assert await content(crypt, "/f", offset, length) == written[offset:stop]
        assert await asyncio.to_thread(rclone.read, "f") == written
        await put(crypt, "/ours/f", written)
        shown = await asyncio.to_thread(rclone.run, "lsf", "-R", "--files-only", "c:")
        assert sorted(shown.splitlines()) == ["f", "ours/f"]
        await asyncio.to_thread(rclone.run, "check", "--download", str(tmp_path / "plain"), "c:ours")

    use(tmp_path, ("standard", "base32", "true", "s"), work, "pass")


def test_without_a_password_the_keys_are_zero(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "f").write_bytes(b"plain")

    async def work(crypt: Any, rclone: RcloneCrypt) -> None:
        await asyncio.to_thread(rclone.run, "copy", str(tmp_path / "plain"), "c:")
        assert await content(crypt, "/f") == b"plain"
        await put(crypt, "/g", b"ours")
        assert await asyncio.to_thread(rclone.read, "g") == b"ours"

    use(tmp_path, ("standard", "base32", "true", ""), work, "")


def test_passwords_are_obscured_as_rclone_does(tmp_path: Path) -> None:
    async def work(crypt: Any, rclone: RcloneCrypt) -> None:
        stored_password = crypt.options.password
        assert stored_password.startswith("___Obfuscated___")
        obscured = stored_password.removeprefix("___Obfuscated___")
        assert (await asyncio.to_thread(rclone.run, "reveal", obscured)).strip() == "pass"
        theirs = (await asyncio.to_thread(rclone.run, "obscure", "pass")).strip()
        await put(crypt, "/f", b"x")
        again = await crypt.context.resolver.crypt(
            "/again", "/disk", password=f"___Obfuscated___{theirs}", filename_encoding="base32"
        )
        assert await content(again, "/f") == b"x"

    use(tmp_path, ("standard", "base32", "true", ""), work, "pass")


def test_a_changed_suffix_is_rclone_s(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    rclone = configure(
        tmp_path / "disk", tmp_path / "rclone.conf", filename_encryption="off", suffix=".enc-1", password="p"
    )

    async def go() -> None:
        tree = Tree()
        await tree.mount("/disk", "Local", root_folder_path=str(tmp_path / "disk"), show_hidden=True)
        options = {"filename_encryption": "off", "encrypted_suffix": ".enc-1", "password": "p"}
        crypt = await tree.crypt("/c", "/disk", **options)
        await put(crypt, "/f.txt", b"x")
        assert os.listdir(tmp_path / "disk") == ["f.txt.enc-1"]

    asyncio.run(go())
    assert rclone.read("f.txt") == b"x"
