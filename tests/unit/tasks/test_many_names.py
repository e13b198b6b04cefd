"""What a request with very many names costs: listings instead of a question for each, and one task for all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mangrove.tasks.specs import TransferSpec
from tests import servers
from tests import task_env as waiting
from tests.task_env import TaskEnv
from tests.unit.drivers.s3.bucket import Bucket
from tests.unit.drivers.s3.proxy import Proxy, proxied


@pytest.fixture
def server() -> Iterator[tuple[Bucket, Proxy]]:
    with servers.moto_s3() as endpoint, proxied(endpoint) as proxy:
        yield Bucket(endpoint), proxy


LARGEST = [pytest.param(verb, 10_000, marks=pytest.mark.long) for verb in ("copy", "move")]


@pytest.mark.parametrize(("verb", "count"), [("copy", 100), *LARGEST])
def test_names_of_a_bucket_are_looked_up_by_its_listing_and_carried_by_one_task(
    task_env: TaskEnv, server: tuple[Bucket, Proxy], verb: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "SECONDS", 300)  # moto sorts ten thousand keys for every page
    bucket, proxy = server
    target, names = task_env.disk(), [f"{number:05}" for number in range(count)]
    bucket.put(*(f"d/{name}" for name in names))
    source = task_env.mount("S3", servers.s3_options(proxy.endpoint, bucket.name))
    (task,) = task_env.transfer(verb, f"{source}/d", target.mount, *names)
    assert TransferSpec.load(task.spec).names == count
    assert proxy.count("head_object") <= 2
    assert proxy.count("list_objects") <= count // 1000 + 3
    assert [one.id for one in task_env.started] == [task.id]
