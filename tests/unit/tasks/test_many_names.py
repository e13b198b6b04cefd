"""The cost of a request with very many names: listings instead of a lookup for each, and one task for all."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from mangrove.tasks.transfer.declaration import TransferSpec
from mangrove.tree.listing import lookups
from tests import servers
from tests.servers.object_store import object_store
from tests.support import task_env as waiting
from tests.support.task_env import TaskEnv
from tests.unit.drivers.s3.proxy import Proxy, proxied


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with object_store() as endpoint, proxied(endpoint) as proxy:
        yield proxy


LARGE_CASES = [pytest.param(verb, 10_000, marks=pytest.mark.long) for verb in ("copy", "move")]


@pytest.mark.parametrize(("verb", "count"), [("copy", 100), *LARGE_CASES])
def test_bucket_names_are_listed_and_copied_by_one_task(
    task_env: TaskEnv, proxy: Proxy, verb: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "WAIT_SECONDS", 300)
    target, names = task_env.disk(), [f"{number:07}" for number in range(count)]
    bucket = servers.make_bucket(proxy.endpoint)
    httpx.get(f"{proxy.endpoint}/{bucket}", params={"fill": "d/", "count": count}).raise_for_status()
    source = task_env.mount("S3", servers.s3_options(proxy.endpoint, bucket))
    (task,) = task_env.transfer(verb, f"{source}/d", target.mount, *names)
    assert TransferSpec.load(task.spec).count == count
    assert proxy.count("head_object") <= 2
    assert proxy.count("list_objects") <= count // 1000 + lookups.RANGE_CONCURRENCY
    assert [started.id for started in task_env.started] == [task.id]
