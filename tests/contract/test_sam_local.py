"""The environment that `sam local` gives the functions, as far as it is known without containers."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from mangrove.standalone import template
from tests.support import lambdas, sam_local
from tests.support.policies import FUNCTIONS

SAM = template.ROOT / ".venv-build" / "bin" / "python"
ENVIRONMENT_SCRIPT = """
import json, sys
from samcli.lib.providers.sam_function_provider import SamFunctionProvider
from samcli.lib.providers.sam_stack_provider import SamLocalStackProvider
from samcli.local.lambdafn.env_vars import EnvironmentVariables

parameters, overrides = dict(one.split("=", 1) for one in sys.argv[3:]), json.load(open(sys.argv[2]))
stacks, _ = SamLocalStackProvider.get_stacks(sys.argv[1], parameter_overrides=parameters)
told = {}
for function in SamFunctionProvider(stacks).get_all():
    told[function.name] = EnvironmentVariables(
        function.name, function.memory, function.timeout, function.handler,
        variables=function.environment["Variables"], override_values=overrides[function.name],
    ).resolve()
json.dump(told, sys.stdout)
"""


@pytest.mark.long
@pytest.mark.skipif(not SAM.exists(), reason="`make build` installs what runs functions locally")
def test_the_functions_are_told_where_the_services_and_their_resources_are(
    cloud: lambdas.Cloud, tmp_path: Path
) -> None:
    sam_local.write_environment(cloud, tmp_path / "local.json")
    words = shlex.split(sam_local.make_command(cloud).replace("\\\n", " ").partition("The admin")[0])
    assert words[words.index("--env-vars") + 1] == ".aws-sam/local.json"
    parameters = words[words.index("--parameter-overrides") + 1 :]
    command = [SAM, "-c", ENVIRONMENT_SCRIPT, template.ROOT / "template.yaml", tmp_path / "local.json", *parameters]
    told = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert told.keys() == FUNCTIONS.keys()
    for name, variables in told.items():
        assert (variables["AWS_ENDPOINT_URL_DYNAMODB"], variables["AWS_ENDPOINT_URL"]) == cloud.aws
        environment = cloud.get_function(name).environment | {"MANGROVE_PAGE": "/var/task/page"}
        own = {key: value for key, value in variables.items() if key.startswith("MANGROVE_")}
        assert own == {key: environment[key] for key in own}
        assert {"MANGROVE_TABLES", "MANGROVE_ENCRYPTION_KEY_SECRET"} <= own.keys()
