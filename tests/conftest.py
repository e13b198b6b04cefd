"""One real records engine for the whole run; tables are emptied for each test that asks for `records`.

A service that a test starts is one process, unless MANGROVE_PROCESSES says how many or the test asks for several.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from _pytest.nodeid import NodeId

from mangrove.core import runtime
from mangrove.core.aws import AwsSession
from mangrove.core.runtime import Runtime
from mangrove.identity.passwords import Hasher
from mangrove.records.store.base import Connections, connections
from mangrove.records.store.encryption import RefusedRecords
from mangrove.records.store.keys import Keyring
from tests import servers
from tests.support import driver_table, selection, service_models
from tests.support import engine as engines
from tests.support.prepared import SOCKET, run_prepared
from tests.support.scheduling import ModuleScheduling
from tests.support.service import Client, Service, run_forked
from tests.support.task_env import TaskEnv
from tests.support.task_env import task_env as open_task_env

os.environ.setdefault("MANGROVE_PROCESSES", "1")
# Each client of httpx reads the trusted roots, also without TLS: those of certifi take 0.03 s of CPU.
os.environ.setdefault("SSL_CERT_FILE", str(Path(__file__).parent / "support" / "roots.pem"))
selection.get_seed()  # before the workers start
service_models.share()


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the process that forks services, once for all workers. A run inside a test has none."""
    if hasattr(config, "workerinput"):
        return
    os.environ.pop(SOCKET, None)
    if getattr(config.option, "numprocesses", None):
        stack = ExitStack()
        stack.enter_context(run_prepared())
        config.add_cleanup(stack.close)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if not collection_path.is_relative_to(config.rootpath) or collection_path.suffix != ".py":
        return None
    path = collection_path.relative_to(config.rootpath).as_posix()
    return selection.is_left_out(path, config.option.markexpr) or None


def pytest_itemcollected(item: pytest.Item) -> None:
    driver_table.note_row(item)
    selection.mark_item(item)


def pytest_collection_finish() -> None:
    """Exclude the modules and tests from garbage collection. A worker has millions of their objects."""
    gc.freeze()


def pytest_report_header() -> str:
    """Name the seed of the sample, which the workers of xdist take over."""
    return f"sample of the products: {selection.SEED_VARIABLE}={selection.get_seed()}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """xdist 3.8 writes the group of a test to `_nodeid`, by which it keeps groups together; pytest 9.2 has moved it."""
    for item in items:
        if "_nodeid" in vars(item):
            item._id = NodeId.parse(vars(item)["_nodeid"])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ModuleScheduling:
    return ModuleScheduling(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The drivers and servers that were tried, in a table."""
    lines = driver_table.make_lines(terminalreporter.stats)
    if lines:
        terminalreporter.section("driver suite")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def own_runtime() -> Iterator[Runtime]:
    """Give every test a runtime of its own. It shares expensive slots and has no records."""
    with runtime.use(runtime.current().keep(AwsSession, Connections, Keyring, Hasher)) as own:
        yield own


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("data")
    with engines.engine() as endpoint:
        engines.enter(folder, endpoint)
        engines.create_tables()
        yield endpoint


@pytest.fixture(scope="session")
def tables(engine: str) -> Iterator[engines.Tables]:
    with closing(engines.Tables(engine)) as tables:
        yield tables


@pytest.fixture
def records(tables: engines.Tables) -> None:
    """Empty tables, of which no record was refused."""
    tables.empty()
    connections().refused = RefusedRecords()


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One real `mangrove serve` for the whole run. Each test uses names of its own."""
    with run_forked(tmp_path_factory.mktemp("service") / "data", "tests.support.quick") as service:
        yield service


@pytest.fixture(scope="session")
def admin(service: Service) -> Client:
    """The administrator, signed in."""
    return service.client()


@pytest.fixture
def folder(admin: Client) -> str:
    """A new empty folder in the Local storage that the first start mounts; its tree path."""
    path = f"/files/{uuid4().hex}"
    admin.ok("/api/fs/mkdir", path=path)
    return path


@pytest.fixture(scope="session")
def s3() -> Iterator[Callable[[], str]]:
    """The address of moto's S3, which is started on first use."""
    with ExitStack() as stack:
        yield cache(lambda: stack.enter_context(servers.moto_s3()))


@pytest.fixture
def task_env(records: None, tmp_path: Path, s3: Callable[[], str]) -> Iterator[TaskEnv]:
    """Tasks in this process, with empty tables."""
    with open_task_env(tmp_path, s3) as made:
        yield made
