"""The first start of a deployment, as a CloudFormation custom resource: administrator, guest, token, files mount."""

from __future__ import annotations

import os
from typing import Any

import boto3
import httpx

from mangrove.identity import passwords
from mangrove.identity.rights import ADMIN_PERMISSION
from mangrove.problems import Problem
from mangrove.records import schema
from mangrove.site import first_start
from mangrove.telemetry import log_exception


def handler(event: dict[str, Any], context: Any) -> None:
    """Answers CloudFormation whatever happens, so that a deployment never hangs on it."""
    status, reason = "SUCCESS", ""
    try:
        if event["RequestType"] != "Delete":
            _run(int(event.get("OldResourceProperties", {}).get("Schema", schema.FIRST)))
    except Problem as problem:
        status, reason = "FAILED", problem.message
    except Exception:
        log_exception("set-up failed")
        status, reason = "FAILED", "see the log of the set-up function"
    answer = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    answer |= {"Status": status, "Reason": reason, "PhysicalResourceId": "mangrove-setup"}
    httpx.put(event["ResponseURL"], json=answer, headers={"content-type": ""}).raise_for_status()


def _run(known: int) -> None:
    """`known`: the version of the records that the template had before this deployment, which no record can lower."""
    secret = boto3.client("secretsmanager").get_secret_value(SecretId=os.environ["MANGROVE_ADMIN_SECRET"])
    schema.upgrade(schema.read_version(known=known))
    first_start.run(None, secret["SecretString"], passwords.hash_password, ADMIN_PERMISSION)
