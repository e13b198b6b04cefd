"""A new process of a function imports no large library until it has answered its first request.

`make check` proves this for the import of the function alone.
"""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.contract import test_events as samples
from tests.support import lambdas

PROGRAM = """
import json, sys
sys.path.insert(0, "")
from app import handler

class Context:
    log_group_name = aws_request_id = function_name = memory_limit_in_mb = invoked_function_arn = "1"
    def get_remaining_time_in_millis(self):
        return 80_000

answer = handler(json.loads(sys.argv[1]), Context())
print(json.dumps([answer["statusCode"], json.loads(answer["body"])["code"], list(sys.modules)]))
"""
LARGE = {"PIL", "asyncssh", "boto3", "httpx", "joserfc"}
START_SECONDS = 300


@pytest.mark.parametrize(("name", "sample"), [("FilesFunction", "files/list"), ("UploadsFunction", "uploads/put")])
def test_first_request_of_a_function_imports_no_large_library(cloud: lambdas.Cloud, name: str, sample: str) -> None:
    values = samples.Values()
    for earlier in ("auth/login", "files/mkdir"):
        samples.run(cloud, values, earlier)
    function = cloud.get_function(name)
    records, services = cloud.aws
    endpoints = {"AWS_ENDPOINT_URL": services, "AWS_ENDPOINT_URL_DYNAMODB": records}
    environment = {**function.environment, **endpoints, "AWS_LAMBDA_FUNCTION_NAME": name}
    environment["PYTHONPATH"] = ":".join(map(str, function.launch.path))
    done = subprocess.run(
        [*function.launch.python, "-c", PROGRAM, json.dumps(values.fill(sample))],
        cwd=function.launch.folder, env=environment, capture_output=True, text=True, timeout=START_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    status, code, modules = json.loads(done.stdout.splitlines()[-1])
    assert (status, code) == (200, 200)
    assert "fastapi" in modules
    assert not LARGE & set(modules)
