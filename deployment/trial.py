"""Try a deployment: `python -m deployment.trial STACK REGION Name=value …`.

Deploy a throw-away stack, use it over HTTPS, print the bill of the requests, and remove it with all that a stack leaves
behind: the bucket, the tables and the key. A stack that exists is refused, and is not changed.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import boto3
from botocore.exceptions import ClientError

import mangrove.client
from deployment.journey import COSTS, JourneyFailed, format_bill, read_prices, travel
from deployment.parameters import read_stack

MISSING = {"NoSuchBucket", "ResourceNotFoundException", "404"}  # codes of AWS for what is not there
RETAINED = ("AWS::S3::Bucket", "AWS::DynamoDB::Table", "AWS::SecretsManager::Secret")
UNPROTECTED = "Protection=off"  # tables that may be deleted, and a bucket without versions
Resources = Sequence[tuple[str, str]]
"""Type and physical id."""


def run(stack: str, region: str, deploy: Callable[[], None], undeploy: Callable[[], None]) -> None:
    """Deploy, use and remove a stack. Raise ValueError if it exists already."""
    if read_stack(stack, region):
        raise ValueError(f"the stack {stack} exists: a trial needs a name of its own, because it removes the stack")
    formation = boto3.client("cloudformation", region_name=region or None)
    try:
        deploy()
        outputs = read_outputs(formation, stack)
        secret = boto3.client("secretsmanager", region_name=region or None)
        password = secret.get_secret_value(SecretId=outputs["AdminSecret"])["SecretString"]
        counts = travel(outputs["Address"], password, f"/files/trial-{secrets.token_hex(4)}")
        print("\n".join(format_bill(counts, read_prices(COSTS.read_text()))))
    finally:
        resources = list_retained(formation, stack)
        undeploy()
        for kind, name in resources:
            remove(kind, name, region)


def read_outputs(formation: Any, stack: str) -> Mapping[str, str]:
    """Return the outputs of a stack."""
    (description,) = formation.describe_stacks(StackName=stack)["Stacks"]
    return {output["OutputKey"]: output["OutputValue"] for output in description["Outputs"]}


def list_retained(formation: Any, stack: str) -> Resources:
    """Return the resources of a stack that its removal may leave; none if a failed deployment left no stack."""
    pages = formation.get_paginator("list_stack_resources").paginate(StackName=stack)
    try:
        rows = [row for page in pages for row in page["StackResourceSummaries"]]
    except ClientError as error:
        if error.response["Error"]["Code"] != "ValidationError":
            raise
        return []
    return [(row["ResourceType"], row["PhysicalResourceId"]) for row in rows if row["ResourceType"] in RETAINED]


def remove(kind: str, name: str, region: str) -> None:
    """Remove a resource with its content, unless it is gone already."""
    try:
        if kind == "AWS::S3::Bucket":
            bucket = boto3.resource("s3", region_name=region or None).Bucket(name)
            bucket.object_versions.delete()
            bucket.delete()
        elif kind == "AWS::DynamoDB::Table":
            boto3.client("dynamodb", region_name=region or None).delete_table(TableName=name)
        else:
            client = boto3.client("secretsmanager", region_name=region or None)
            client.delete_secret(SecretId=name, ForceDeleteWithoutRecovery=True)
    except ClientError as error:
        if error.response["Error"]["Code"] not in MISSING:
            raise


def main(stack: str, region: str, *parameters: str) -> int:
    """Try a deployment by `make deploy` and `make undeploy`."""
    names = [f"STACK={stack}", f"REGION={region}"]
    values = f"PARAMETERS={' '.join([UNPROTECTED, *parameters])}"
    try:
        run(stack, region, lambda: _make("deploy", *names, values), lambda: _make("undeploy", *names))
    except (ValueError, JourneyFailed, mangrove.client.ClientError) as error:
        print(error, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"{error.cmd[0]} {error.cmd[1]} failed: see above", file=sys.stderr)
        return 1
    return 0


def _make(*arguments: str) -> None:
    subprocess.run(["make", *arguments], check=True)  # noqa: S603, S607 - the caller's own parameters


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
