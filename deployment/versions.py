"""Delete old versions of the functions of a stack: `python -m deployment.versions STACK [REGION]`.

Each deployment publishes a version of each function that answers requests. The last MAX_VERSIONS stay, so that an alias
can be moved back by hand. A version that an alias uses is never deleted. Of a function with SnapStart no other version
stays, because AWS charges for the snapshot of each.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import botocore.session
from botocore.exceptions import ClientError

MAX_VERSIONS = 5
LATEST = "$LATEST"
IN_USE = "ResourceConflictException"


def list_functions(client: Any, stack: str) -> Iterator[str]:
    """Yield the names of the functions of a stack. `client`: of CloudFormation."""
    for page in client.get_paginator("list_stack_resources").paginate(StackName=stack):
        for resource in page["StackResourceSummaries"]:
            if resource["ResourceType"] == "AWS::Lambda::Function":
                yield resource["PhysicalResourceId"]


def delete_old(client: Any, function: str) -> list[str]:
    """Delete all versions of a function except the last ones and those in use. Return the deleted versions."""
    pages = client.get_paginator("list_versions_by_function").paginate(FunctionName=function)
    versions = {version["Version"]: version for page in pages for version in page["Versions"]}
    published = sorted((version for version in versions if version != LATEST), key=int)
    paid = [version for version in published[-MAX_VERSIONS:] if has_snapshot(versions[version])]
    idle = published[:-MAX_VERSIONS] + paid
    aliases = client.get_paginator("list_aliases").paginate(FunctionName=function)
    used = {version for page in aliases for alias in page["Aliases"] for version in _list_versions(alias)}
    deleted = []
    for version in idle:
        if version in used:
            continue
        try:
            client.delete_function(FunctionName=function, Qualifier=version)
        except ClientError as error:
            if error.response["Error"]["Code"] != IN_USE:
                raise
        else:
            deleted.append(version)
    return deleted


def has_snapshot(version: dict[str, Any]) -> bool:
    """True if AWS keeps a snapshot of a version."""
    return bool(version.get("SnapStart", {}).get("ApplyOn") == "PublishedVersions")


def _list_versions(alias: dict[str, Any]) -> set[str]:
    """Return the versions that an alias uses: its own, and that of a deployment in progress."""
    return {alias["FunctionVersion"], *alias.get("RoutingConfig", {}).get("AdditionalVersionWeights", {})}


def main(stack: str, region: str = "") -> int:
    """Delete the old versions of all functions of a stack."""
    session = botocore.session.get_session()
    client = session.create_client("lambda", region or None)
    for function in list_functions(session.create_client("cloudformation", region or None), stack):
        deleted = delete_old(client, function)
        if deleted:
            print(f"{function}: deleted {len(deleted)} old versions")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
