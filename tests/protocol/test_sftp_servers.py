"""The driver suite on SFTP servers that have fewer extensions than OpenSSH: rclone's, and asyncssh's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from mangrove.core.paths import TreePath
from mangrove.drivers.base import Driver
from tests.contract.drivers import suite
from tests.contract.drivers.test_suite import start_driver
from tests.servers import free_port, restartable, ssh

pytestmark = pytest.mark.xdist_group("sftp")


# what these servers cannot: rclone copies nothing, and without a cache it writes into no file that is there
NO_COPIES = {name for name, case in suite.CASES.items() if "copy" in case.needs}
NO_PARTS = {name for name, case in suite.CASES.items() if "parts" in case.needs}
NOT_ON_RCLONE = {
    # it takes one for the other
    "folders_with_composed_and_decomposed_names_are_kept_apart_or_refused",
    "folders_take_the_names_that_files_take",
}
NOT_WITHOUT_A_CACHE = {
    # it lists a name that its disk has refused
    "names_that_are_too_long_are_kept_or_refused",
    # it continues in the file that has the name then
    "a_slow_reader_gets_one_whole_version_or_a_failure",
    "readers_beside_writers_see_whole_files",
}
NOT_WITH_A_CACHE = {
    # what was removed may come to its disk later, from the cache
    "a_body_that_fails_leaves_the_file_that_was_there",
    "a_write_that_is_cancelled_at_any_time_leaves_all_or_nothing",
}


class Server(NamedTuple):
    """The options of a storage in it, its folder, and how to restart it."""

    options: dict[str, Any]
    folder: Path
    restart: Callable[[], None]


@contextmanager
def open_rclone(folder: Path, *more: str) -> Iterator[Server]:
    port = free_port()
    (folder / "files").mkdir()
    with restartable(lambda: ssh.rclone_sftp(folder / "files", *more, port=port)) as restart:
        yield Server(ssh.rclone_options(port), folder / "files", restart)


@pytest.fixture(scope="module")
def cached_rclone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with open_rclone(tmp_path_factory.mktemp("cached"), "--vfs-cache-mode", "writes") as server:
        yield server


@pytest.fixture(scope="module")
def rclone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with open_rclone(tmp_path_factory.mktemp("rclone")) as server:
        yield server


@pytest.fixture(scope="module")
def asyncssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("asyncssh")
    with ssh.python_ssh(folder) as server:
        yield Server(server.options(), folder, server.restart)


def list_runs() -> Iterator[Any]:
    for server, name, but in (
        ("cached_rclone", "rclone with a cache", NOT_ON_RCLONE | NOT_WITH_A_CACHE | NO_COPIES),
        ("rclone", "rclone", NOT_ON_RCLONE | NOT_WITHOUT_A_CACHE | NO_COPIES | NO_PARTS),
        ("asyncssh", "asyncssh", set()),
    ):
        for case in suite.list_cases("SFTP", but):
            marks = [pytest.mark.driver("SFTP", name), *([] if server == "rclone" else [pytest.mark.long])]
            yield pytest.param(server, case, id=f"{server}-{case}", marks=marks)


@pytest.mark.parametrize(("server", "case"), [*list_runs()])
def test_contract(request: pytest.FixtureRequest, server: str, case: str) -> None:
    options, folder, restart = request.getfixturevalue(server)
    root = f"/{uuid4().hex}"

    async def start() -> Driver:
        above = await start_driver("SFTP", options)
        await above.makedirs(TreePath(root))  # type: ignore[attr-defined]
        await above.stop()
        return await start_driver("SFTP", options | {"root_folder_path": root})

    suite.run(start, case, suite.on_disk(folder / root[1:], restart, many=2500))
