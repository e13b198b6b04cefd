"""Every route that creates tasks takes a key: the functions under Lambda's runtime client, with their rights alone."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

import pytest
import yaml

from tests.contract import index_scenarios, request_key_scenario
from tests.contract.request_key_scenario import Answer, Request
from tests.contract.scenarios import EVENTS, Person
from tests.support import lambdas
from tests.support.policies import Policy

SAMPLE = re.compile(r"(\S+): (\S+) (\S+)")


@pytest.fixture(scope="module")
def admin() -> Iterator[Person]:
    """An administrator of a deployment whose functions are refused what the template does not grant."""
    with lambdas.deploy() as cloud:
        assert cloud.run_setup()["Status"] == "SUCCESS"
        for name in ("FilesFunction", "UploadsFunction", "SearchFunction"):
            cloud.get_function(name).policy = Policy(name, cloud.refs)
        admin = Person(cloud).sign_in("admin", lambdas.ADMIN_PASSWORD)
        index_scenarios.switch(admin, "database")
        yield admin


class Cloud:
    """The service in the cloud."""

    def __init__(self, admin: Person, folder: str, url: str) -> None:
        self.folder = folder
        self.url = url
        self._admin = admin
        rows = yaml.safe_load((EVENTS / "samples.yaml").read_text())
        matches = [SAMPLE.match(": ".join(map(str, next(iter(row.items()))))) for row in rows if isinstance(row, dict)]
        matches += [SAMPLE.match(row) for row in rows if isinstance(row, str)]
        self._samples = {(match[2], match[3]): match[1] for match in matches if match}

    def send(self, request: Request) -> Answer:
        sample = self._samples[request.method, request.path]
        headers = {name.lower(): value for name, value in request.headers.items()}
        event = {"headers": headers, "body": base64.b64encode(request.content).decode(), "isBase64Encoded": True}
        answer = self._admin.raw(sample, event)
        return Answer(answer["body"].encode(), "idempotency-replayed" in answer["headers"])

    def finish_tasks(self) -> None:
        self._admin.cloud.run_executions()


@pytest.mark.parametrize("header", ["Idempotency-Key", "X-Request-Id"])
def test_repeated_request_to_any_route_gets_the_first_answer(admin: Person, header: str) -> None:
    url = admin.cloud.serve_files({"/f": b"f"}) + "/f"
    request_key_scenario.run(Cloud(admin, f"/files/{header.lower()}", url), header)
