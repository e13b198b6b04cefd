"""Behaviour of Crypt itself, on Local storages of this machine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryExists, EntryNotFound, NotAFile, NotSupported, StorageForbidden, StorageProblem
from mangrove.drivers import base
from mangrove.drivers.base import Upload
from mangrove.drivers.crypt.ciphers import HEADER, SEALED
from tests.contract.drivers.actions import body, content, fails, names, put, upload_of
from tests.contract.drivers.trees import Tree

P = TreePath
Work = Callable[[Any, Tree, Path], Awaitable[None]]


def use(folder: Path, work: Work, **options: Any) -> None:
    """Run `work` on a Crypt over `folder`."""

    async def go() -> None:
        tree = Tree()
        await tree.mount("/disk", "Local", root_folder_path=str(folder), show_hidden=True)
        await work(await tree.crypt("/c", "/disk", **options), tree, folder)

    asyncio.run(go())


def only_file(folder: Path) -> Path:
    (child,) = folder.iterdir()
    return child


def test_a_damaged_block_is_noticed_and_only_there(tmp_path: Path) -> None:
    written = os.urandom(3 * 65536)

    async def work(crypt: Any, tree: Tree, folder: Path) -> None:
        await put(crypt, "/f", written)
        file = only_file(folder)
        sealed = bytearray(file.read_bytes())
        sealed[HEADER + SEALED + 100] ^= 1
        file.write_bytes(sealed)
        assert await content(crypt, "/f", 0, 65536) == written[:65536]
        assert await content(crypt, "/f", 2 * 65536, None) == written[2 * 65536 :]
        for offset, length in ((0, None), (65536, 1), (0, 65537)):
            with pytest.raises(StorageProblem, match="f is damaged"):
                await content(crypt, "/f", offset, length)

    use(tmp_path, work)


@pytest.mark.parametrize("cut", [1, 17, SEALED - 20])
def test_a_truncated_file_is_noticed(tmp_path: Path, cut: int) -> None:
    async def work(crypt: Any, tree: Tree, folder: Path) -> None:
        await put(crypt, "/f", b"x" * 3 * 65536)
        file = only_file(folder)
        os.truncate(file, file.stat().st_size - cut)
        with pytest.raises(StorageProblem, match="damaged"):
            await content(crypt, "/f")

    use(tmp_path, work)


class Shortened:
    """A driver that ends every body before its time."""

    def __init__(self, driver: Any, keep: int) -> None:
        self._driver = driver
        self._keep = keep

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def get_unmapped(self) -> Any:
        return self

    async def read(self, *args: Any) -> Any:
        source = b"".join([block async for block in await self._driver.read(*args)])
        return body(source[: self._keep])


@pytest.mark.parametrize("keep", [HEADER, HEADER + SEALED, HEADER + 2 * SEALED])
def test_a_body_that_ends_early_at_the_border_of_a_block_is_noticed(tmp_path: Path, keep: int) -> None:
    async def work(crypt: Any, tree: Tree, folder: Path) -> None:
        await put(crypt, "/f", b"x" * 3 * 65536)
        tree.mounts["/disk"] = [Shortened(tree.mounts["/disk"][0], keep)]  # type: ignore[list-item]
        with pytest.raises(StorageProblem, match="size"):
            await content(crypt, "/f")

    use(tmp_path, work)


def test_what_is_not_encrypted_or_has_no_such_size_is_hidden(tmp_path: Path) -> None:
    async def work(crypt: Any, tree: Tree, folder: Path) -> None:
        await put(crypt, "/f", b"x")
        await put(crypt, "/short", b"x")
        (folder / crypt.remote.names.encrypt("short", False)).write_bytes(b"RCLONE\0\0 but short")
        (folder / "plain.txt").write_bytes(b"plain")
        assert await names(crypt, "/") == ["f"]
        await fails(crypt.stat(P("/short")), EntryNotFound)
        await fails(crypt.read(P("/short")), EntryNotFound)
        await fails(crypt.read(P("/plain.txt")), EntryNotFound)
        (folder / crypt.remote.names.encrypt("other", False)).write_bytes(b"x" * 60)
        with pytest.raises(StorageProblem, match="other is not an encrypted file"):
            await crypt.read(P("/other"))

    use(tmp_path, work)


@pytest.mark.parametrize("mode", ["standard", "obfuscate"])
def test_a_wrong_password_is_told_by_the_status_once_the_root_is_listed(tmp_path: Path, mode: str) -> None:
    async def work(crypt: Any, tree: Tree, folder: Path) -> None:
        assert await names(crypt, "/") == []
        assert tree.statuses["/c"] == ""
        for name in "abc":
            await put(crypt, f"/{name}")
        wrong = await tree.crypt("/wrong", "/disk", password="other", filename_encryption=mode)
        assert tree.statuses.get("/wrong") is None
        assert await names(wrong, "/") == []
        assert tree.statuses["/wrong"].startswith("none of the 3 names in /disk can be decrypted")
        await put(wrong, "/mine")
        assert await names(wrong, "/") == ["mine"]
        assert tree.statuses["/wrong"] == ""
        assert await names(crypt, "/") == ["a", "b", "c"]

    use(tmp_path, work, filename_encryption=mode)


def test_a_wrong_password_where_names_are_plain_is_told_by_the_file(tmp_path: Path) -> None:
    async def work(crypt: Any, tree: Tree, folder: Path) -> None:
        await put(crypt, "/f", b"x")
        wrong = await tree.crypt("/wrong", "/disk", password="other", filename_encryption="off")
        assert await names(wrong, "/") == ["f"]
        with pytest.raises(StorageProblem, match="f is damaged, or was encrypted with another password or salt"):
            await content(wrong, "/f")

    use(tmp_path, work, filename_encryption="off")


def test_a_salt_makes_other_keys(tmp_path: Path) -> None:
    async def work(crypt: Any, tree: Tree, folder: Path) -> None:
        await put(crypt, "/f", b"x")
        assert await names(await tree.crypt("/other", "/disk"), "/") == []
        assert await content(await tree.crypt("/same", "/disk", salt="salt"), "/f") == b"x"

    use(tmp_path, work, salt="salt")


def test_hidden_entries_are_listed_if_that_is_wanted(tmp_path: Path) -> None:
    async def work(crypt: Any, tree: Tree, folder: Path) -> None:
        await put(crypt, "/.f", b"x")
        assert await names(crypt, "/") == []
        assert await content(crypt, "/.f") == b"x"
        assert await names(await tree.crypt("/all", "/disk"), "/") == [".f"]

    use(tmp_path, work, show_hidden=False)


def test_thumbnails_are_files_that_were_made_before(tmp_path: Path) -> None:
    async def work(crypt: Any, tree: Tree, folder: Path) -> None:
        await crypt.makedirs(P("/d/.thumbnails"))
        for name in ("a.jpg", "b.jpg", ".thumbnails/a.jpg.webp"):
            await put(crypt, f"/d/{name}", name.encode())
        shown = {entry.name: entry.thumb for entry in await base.list_all(crypt, P("/d"))}
        assert shown == {"a.jpg": True, "b.jpg": False, ".thumbnails": False}
        assert await crypt.make_thumbnail(P("/d/a.jpg")) == (b".thumbnails/a.jpg.webp", "image/webp")
        await fails(crypt.make_thumbnail(P("/d/b.jpg")), EntryNotFound)
        without = await tree.crypt("/without", "/disk")
        assert not any(entry.thumb for entry in await base.list_all(without, P("/d")))
        await fails(without.make_thumbnail(P("/d/a.jpg")), NotSupported)

    use(tmp_path, work, thumbnail=True)


def test_the_passwords_are_kept_obscured_from_the_first_start_on(tmp_path: Path) -> None:
    async def work(crypt: Any, tree: Tree, folder: Path) -> None:
        await put(crypt, "/f", b"x")
        saved: Any = tree.saved["/c"]
        assert saved.password.startswith("___Obfuscated___")
        assert saved.salt.startswith("___Obfuscated___")
        again = await tree.crypt("/again", "/disk", password=saved.password, salt=saved.salt)
        assert "/again" not in tree.saved
        assert await content(again, "/f") == b"x"

    use(tmp_path, work)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"encrypted_suffix": "bin"}, "EncryptedSuffix is Illegal"), ({"encrypted_suffix": ".b"}, "Illegal"),
        ({"encrypted_suffix": ".bi/n"}, "Illegal"), ({"encrypted_suffix": ".bin\n"}, "Illegal"),
        ({"remote_path": ""}, "remote_path is required"), ({"remote_path": "/c"}, "lies in the encrypted storage"),
        ({"remote_path": "/c/below"}, "lies in the encrypted storage"),
        ({"password": "___Obfuscated___x"}, "is not obscured"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_are_refused_at_the_start(options: dict[str, str], text: str) -> None:
    async def go() -> None:
        values = {"encrypted_suffix": ".bin", "password": "p", "remote_path": "/disk"} | options
        with pytest.raises(StorageProblem, match=text):
            await Tree().mount("/c", "Crypt", **values)

    asyncio.run(go())


def test_where_nothing_is_mounted_the_listing_says_so() -> None:
    async def go() -> None:
        crypt = await Tree().crypt("/c", "/nowhere")
        with pytest.raises(StorageProblem, match=r"^failed get storage: storage not found; rawPath: /nowhere$"):
            await names(crypt, "/")
        await fails(crypt.stat(P("/f")), EntryNotFound)
        assert (await crypt.stat(P("/"))).is_dir
        assert not await crypt.proves_writes()

    asyncio.run(go())


def test_storages_that_lead_to_each_other_in_a_circle_end() -> None:
    """At the latest when a name that is encrypted again and again has become too long."""

    async def go() -> None:
        tree = Tree()
        looping = await tree.crypt("/one", "/alias")
        await tree.mount("/alias", "Alias", paths="/two", write_conflict_policy="all", put_conflict_policy="all")
        await tree.crypt("/two", "/one")
        for work in (
            names(looping, "/"),
            put(looping, "/f"),
            looping.stat(P("/f")),
            looping.makedirs(P("/d")),
            looping.remove(P("/f")),
        ):
            with pytest.raises(StorageProblem, match=r"circle|is too long"):
                await work

    asyncio.run(go())


def test_the_root_stays(tmp_path: Path) -> None:
    async def work(crypt: Any, tree: Tree, folder: Path) -> None:
        for change in (crypt.remove(P("/")), crypt.rename(P("/"), P("/x")), crypt.move(P("/"), P("/x"))):
            await fails(change, StorageForbidden)
        await fails(crypt.read(P("/")), NotAFile)
        assert not await crypt.remove_empty(P("/"))

    use(tmp_path, work)


def test_a_file_and_a_folder_have_no_one_name_though_the_remote_could(tmp_path: Path) -> None:
    async def work(crypt: Any, tree: Tree, folder: Path) -> None:
        await put(crypt, "/f")
        await crypt.makedirs(P("/d"))
        await crypt.makedirs(P("/e"))
        await fails(crypt.makedirs(P("/f")), EntryExists)
        await fails(crypt.makedirs(P("/f/below")), EntryExists)
        await fails(put(crypt, "/d"), EntryExists)
        await fails(crypt.rename(P("/f"), P("/d")), EntryExists)
        await fails(crypt.rename(P("/d"), P("/f")), EntryExists)
        await fails(crypt.copy(P("/f"), P("/d")), EntryExists)
        assert await names(crypt, "/") == ["d", "e", "f"]
        assert not await crypt.can_refuse_existing()

    use(tmp_path, work, directory_name_encryption="false")


def test_a_folder_that_holds_what_does_not_decrypt_is_not_empty(tmp_path: Path) -> None:
    async def work(crypt: Any, tree: Tree, folder: Path) -> None:
        await crypt.makedirs(P("/d"))
        (only_file(folder) / "foreign").write_bytes(b"")
        assert await names(crypt, "/d") == []
        assert not await crypt.remove_empty(P("/d"))
        (only_file(folder) / "foreign").unlink()
        assert await crypt.remove_empty(P("/d"))

    use(tmp_path, work)


def test_a_name_that_does_not_fit_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    async def work(crypt: Any, tree: Tree, folder: Path) -> None:
        await put(crypt, "/f")
        long = "n" * 200
        works = (put(crypt, f"/{long}"), crypt.makedirs(P(f"/{long}")), crypt.rename(P("/f"), P(f"/{long}")))
        for change in works:
            with pytest.raises(StorageProblem, match=r"the name n{200} is too long: encrypted it has"):
                await change
        assert await names(crypt, "/") == ["f"]

    use(tmp_path, work)


def test_a_missing_folder_of_the_remote_is_made_with_the_first_file(tmp_path: Path) -> None:
    async def work(crypt: Any, tree: Tree, folder: Path) -> None:
        new = await tree.crypt("/new", "/disk/not/there")
        await fails(names(new, "/"), EntryNotFound)
        await put(new, "/f", b"x")
        assert (await content(new, "/f"), await names(new, "/")) == (b"x", ["f"])

    use(tmp_path, work)


def test_a_file_whose_size_its_storage_does_not_know_is_read_to_its_end(tmp_path: Path) -> None:
    async def work(crypt: Any, tree: Tree, folder: Path) -> None:
        written = os.urandom(150_000)
        await crypt.write(P("/f"), body(written), upload_of(written))
        local: Any = tree.mounts["/disk"][0]
        stat = local.stat

        async def stat_without_size(path: TreePath) -> base.Entry:
            entry: base.Entry = await stat(path)
            return entry if entry.is_dir else entry._replace(size=None, etag="")

        async def read(path: TreePath, offset: int = 0, length: int | None = None, if_match: object = None) -> Any:
            return await type(local).read(local, path, offset, length)

        local.stat, local.read = stat_without_size, read
        assert (await crypt.stat(P("/f"))).size is None
        for offset, length in ((0, None), (5, 10), (70_000, None), (140_000, 50_000)):
            stop = None if length is None else offset + length
            assert await content(crypt, "/f", offset, length) == written[offset:stop]

    use(tmp_path, work)


def test_what_a_remote_cannot_is_not_supported(tmp_path: Path) -> None:
    async def go() -> None:
        tree = Tree()
        await tree.mount("/urls", "UrlTree", url_structure="")
        crypt = await tree.crypt("/c", "/urls")
        for work in (put(crypt, "/f"), crypt.get_space()):
            await fails(work, NotSupported)
        await fails(crypt.write(P("/f"), body(b""), Upload(0, 0.0)), NotSupported)

    asyncio.run(go())
