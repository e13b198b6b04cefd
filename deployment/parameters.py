"""The parameters of a deployment: `python -m deployment.parameters STACK REGION Name=value …`.

Prints them as `sam deploy` takes them, quoted for a shell: the parameters of the command line, the architecture of the
build, and the release. A function gets a new version when the release differs, so the release covers the build and the
values of all parameters. Parameters that are not on the command line have the values of the stack.
"""

from __future__ import annotations

import hashlib
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

BUILD = Path(".aws-sam")
RELEASE, ARCHITECTURE = "Release", "Architecture"
RELEASE_LENGTH = 16
MACHINES = {62: "x86_64", 183: "arm64"}  # e_machine of an ELF header → the name of the architecture at Lambda
MACHINE_NAMES = {"x86_64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}  # of this computer → the same
ELF_MAGIC, MACHINE_OFFSET = b"\x7fELF", 18


def find_architecture(libraries: Iterable[Path]) -> str:
    """Return the architecture of compiled libraries. Raise ValueError for none, several or an unknown one."""
    machines = set()
    for library in libraries:
        header = library.read_bytes()[: MACHINE_OFFSET + 2]
        if header.startswith(ELF_MAGIC):
            machines.add(int.from_bytes(header[MACHINE_OFFSET:], "little"))
    names = sorted(MACHINES.get(machine, f"machine {machine}") for machine in machines)
    if len(names) != 1 or names[0] not in MACHINES.values():
        raise ValueError(f"the compiled libraries are for {', '.join(names) or 'no processor'}")
    return names[0]


def read_stack(name: str, region: str) -> dict[str, str]:
    """Return the parameters of a stack, empty if it does not exist yet. The values of secret ones are masked."""
    import boto3  # installed only with the SAM command
    from botocore.exceptions import ClientError

    client = boto3.client("cloudformation", region_name=region or None)
    try:
        (stack,) = client.describe_stacks(StackName=name)["Stacks"]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ValidationError":  # CloudFormation's answer for an unknown stack
            return {}
        raise
    return {row["ParameterKey"]: row["ParameterValue"] for row in stack.get("Parameters", ())}


def make_parameters(
    chosen: Mapping[str, str], present: Mapping[str, str], release: str, architecture: str
) -> dict[str, str]:
    """Return the parameters to pass. Raise ValueError if they name another architecture than that of the build."""
    if chosen.get(ARCHITECTURE, architecture) != architecture:
        raise ValueError(f"the build is for {architecture}: build with PARAMETERS=Architecture={chosen[ARCHITECTURE]}")
    passed = {**chosen, ARCHITECTURE: architecture}
    effective = {**present, **passed}
    effective.pop(RELEASE, None)
    digest = hashlib.sha256(release.encode())
    for name, value in sorted(effective.items()):
        digest.update(f"\0{name}={value}".encode())
    return {**passed, RELEASE: digest.hexdigest()[:RELEASE_LENGTH]}


def main(stack: str, region: str, *arguments: str) -> int:
    """Print the parameters in one line."""
    chosen = dict(argument.split("=", 1) for argument in arguments)
    release, architecture = ((BUILD / name).read_text() for name in ("release", "architecture"))
    try:
        parameters = make_parameters(chosen, read_stack(stack, region), release, architecture)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    print(shlex.join(f"{name}={value}" for name, value in parameters.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
