"""`python -m tests.support.sam_local`: what the built functions need beside them under `sam local`, on this machine.

A records engine, moto's other services, tables, buckets and the first administrator. It writes down the environment
that the functions are told, prints the command, and works until it is interrupted. Machines are not run.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

from tests.support import lambdas
from tests.support.policies import FUNCTIONS
from tests.support.runtime_api import ROOT

ENVIRONMENT_FILE = ROOT / ".aws-sam" / "local.json"
VARIABLE_PREFIX = "MANGROVE_"  # how the names of its variables begin
COMMAND = """
AWS_ACCESS_KEY_ID=role AWS_SECRET_ACCESS_KEY=role .venv-build/bin/sam local start-api --region {region} \\
  --docker-network host --env-vars {written} --parameter-overrides \\
  Release=local Endpoint={services} DynamoDbEndpoint={records}

The administrator's password is "{password}". Ctrl-C ends the services and what they keep.
"""


def write_environment(cloud: lambdas.Cloud, path: Path) -> None:
    """Write the environment that the deployment gives each function, as `sam local` reads it."""
    told = {
        name: {
            key: value for key, value in cloud.get_function(name).environment.items() if key.startswith(VARIABLE_PREFIX)
        }
        for name in FUNCTIONS
    }
    for name in ("SiteFunction", "SharesFunction"):
        del told[name]["MANGROVE_PAGE"]  # which is in the function
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(told))


def make_command(cloud: lambdas.Cloud) -> str:
    """Return the command to run beside this."""
    records, services = cloud.aws
    return COMMAND.format(
        region=lambdas.REGION, written=ENVIRONMENT_FILE.relative_to(ROOT), services=services, records=records,
        password=lambdas.ADMIN_PASSWORD,
    )  # fmt: skip


def main() -> None:
    """Serve until interrupted."""
    with lambdas.deploy("2") as cloud:
        cloud.run_setup()
        write_environment(cloud, ENVIRONMENT_FILE)
        print(make_command(cloud), flush=True)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    main()
