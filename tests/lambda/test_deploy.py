"""`sam deploy` of the build in an account that moto stands for: it uploads all code and asks for a change of the stack.

moto does not know the transform of SAM, so it refuses the change.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from mangrove.standalone import template
from tests import servers
from tests.support.built import BUILD
from tests.support.policies import FUNCTIONS
from tests.support.runtime_api import ROOT

STACK, BUCKET, PASSWORD = "deployed", "deployments", "a-password-of-a-parameter"
DEPLOY_SECONDS = 500


def count_uploads() -> int:
    """Return the number of archives of code and layers, of definitions of state machines, and the template."""
    layers, machines = (
        list(template.iter_resources(f"AWS::Serverless::{kind}")) for kind in ("LayerVersion", "StateMachine")
    )
    return len({properties["CodeUri"] for properties in FUNCTIONS.values()}) + len(layers) + len(machines) + 1


def test_build_is_uploaded_and_a_change_of_the_stack_is_asked_for(tmp_path: Path) -> None:
    tools, configuration = ROOT / ".venv-build" / "bin", tmp_path / "samconfig.toml"
    configuration.write_text("version = 0.1\n")
    with servers.moto_s3() as endpoint:
        store = servers.make_client("s3", endpoint)
        store.create_bucket(Bucket=BUCKET)
        environment = os.environ | {
            "SAM_CLI_TELEMETRY": "0", "PATH": f"{tools}:{os.environ['PATH']}", "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret",
        }  # fmt: skip
        command = [
            f"{tools}/sam", "deploy", "--region", "us-east-1", "--template-file", f"{BUILD}/template.yaml",
            "--config-file", str(configuration), "--stack-name", STACK, "--s3-bucket", BUCKET, "--s3-prefix", STACK,
            "--capabilities", "CAPABILITY_IAM", "--on-failure", "DELETE",
            "--parameter-overrides", "Release=r1", f"AdminPassword={PASSWORD}",
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=DEPLOY_SECONDS
        )
        stored = store.list_objects_v2(Bucket=BUCKET)["Contents"]
    output = done.stdout + done.stderr
    assert "when calling the CreateChangeSet operation" in output
    assert PASSWORD not in output
    assert len(stored) == count_uploads()
