"""A download during an overwrite: each answer is one complete version of the file, or is visibly truncated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryChanged
from mangrove.drivers.base import DriverContext, Entry
from mangrove.drivers.local.driver import Local
from mangrove.web import serving
from tests.unit.web.configs import LOCAL, configure

PATH = TreePath("/file")
OLD, NEW = b"old " * 100, b"a newer one " * 1000


@pytest.fixture(autouse=True)
def on_one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(LOCAL)


class Replaced(Local):
    """Local, whose file is replaced right before it is opened, while there are contents left."""

    contents: list[bytes]
    checks = True

    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        if self.contents:
            place = Path(self.options.root_folder_path)
            (place / "other").write_bytes(self.contents.pop(0))
            (place / "other").rename(place / "file")
        return await super().read(path, offset, length, if_match if self.checks else None)


def ask(folder: Path, contents: list[bytes], checks: bool = True, **headers: str) -> httpx.Response:
    """The answer for a file that is replaced by each of the contents while it is asked for."""
    (folder / "file").write_bytes(OLD)

    async def go() -> httpx.Response:
        driver = Replaced(Local.Options(root_folder_path=str(folder)), DriverContext())
        driver.contents, driver.checks = list(contents), checks
        await driver.start()

        async def stat(anew: bool) -> Entry:
            entry = await driver.stat(PATH)
            return entry if checks else entry._replace(etag="")

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await (await serving.serve_file(Request(scope, receive), driver, PATH, "f", stat))(scope, receive, send)

        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://mangrove") as client:
            return await client.get("/", headers={name.replace("_", "-"): value for name, value in headers.items()})

    return asyncio.run(go())


@pytest.mark.parametrize(
    ("requested_range", "cut"),
    [("", lambda content: content), ("bytes=2-9", lambda content: content[2:10]),
     ("bytes=100-", lambda content: content[100:])],
)  # fmt: skip
def test_a_file_replaced_before_it_is_opened_is_answered_as_the_new_one(
    tmp_path: Path, requested_range: str, cut: Callable[[bytes], bytes]
) -> None:
    for contents in ([NEW], [NEW, OLD, b"x" * 200]):
        answer = ask(tmp_path, contents, range=requested_range)
        assert answer.content == cut(contents[-1])
        assert answer.headers["content-length"] == str(len(answer.content))
        if requested_range:
            assert answer.headers["content-range"].endswith(f"/{len(contents[-1])}")


def test_ranges_of_one_answer_are_of_one_version(tmp_path: Path) -> None:
    answer = ask(tmp_path, [NEW], range="bytes=0-3,8-11")
    assert answer.content.count(b"a ne") == 1
    with pytest.raises(EntryChanged):
        ask(tmp_path, [OLD, OLD, OLD, OLD, NEW, NEW], range="bytes=0-3,8-11")


def test_range_of_replaced_version_returns_whole_new_file(tmp_path: Path) -> None:
    old = ask(tmp_path, [])
    answer = ask(tmp_path, [NEW], range="bytes=1-2", if_range=old.headers["etag"])
    assert (answer.status_code, answer.content) == (200, NEW)


def test_a_file_that_is_replaced_at_every_try_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EntryChanged):
        ask(tmp_path, [OLD, NEW] * serving.MAX_OPEN_ATTEMPTS)


@pytest.mark.parametrize("content", [NEW, OLD[:-1], b""])
def test_body_of_other_length_is_aborted_without_validators(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(EntryChanged):
        ask(tmp_path, [content], checks=False)
    assert ask(tmp_path, [], checks=False).content == OLD
