"""A deployment of the built functions, each with its own policy; the machines are run by moto's interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support import built, interpreters, lambdas
from tests.support import engine as engines
from tests.support.policies import FUNCTIONS, Policy

REASON = built.find_reason_to_skip()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(folder):
            item.add_marker(pytest.mark.long)
            item.add_marker(pytest.mark.skipif(bool(REASON), reason=REASON))
            item.add_marker(pytest.mark.xdist_group("lambda"))


@contextmanager
def deploy(folder: Path, engine: Callable[[], AbstractContextManager[str]]) -> Iterator[lambdas.Cloud]:
    """A deployment that has been set up."""
    with ExitStack() as stack:
        cloud = stack.enter_context(lambdas.deploy(launch=built.Built(folder), engine=engine))
        cloud.interpret = stack.enter_context(interpreters.start_moto())
        for name in FUNCTIONS:
            cloud.get_function(name).policy = Policy(name, cloud.refs)
        assert cloud.run_setup()["Status"] == "SUCCESS"
        yield cloud


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lambdas.Cloud]:
    with deploy(tmp_path_factory.mktemp("client"), engines.engine) as cloud:
        yield cloud


@pytest.fixture
def cloud_on_dynamodb_local(tmp_path: Path) -> Iterator[lambdas.Cloud]:
    with deploy(tmp_path, engines.dynamodb_local) as cloud:
        yield cloud
