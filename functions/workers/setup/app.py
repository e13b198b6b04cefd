"""A custom resource of the deployment in CloudFormation: it makes the keys and the records for the first start, and
empties buckets before they are deleted.
"""

from __future__ import annotations

import json
import os
import ssl
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError

from mangrove.core import aws
from mangrove.core.aws_calls import RECORDS, SECRETS, ServerAddress, ServiceClient
from mangrove.core.http_connections import make_connections
from mangrove.core.problems import Problem
from mangrove.core.telemetry import NEWER_RECORDS, emit, log_exception, log_warning

SPARE_SECONDS = 20.0  # of the function's time, reserved for reporting the result
ANSWER_TIMEOUT = 5.0  # seconds, of a connection and of a read
REASON_LETTERS = 1000  # limit of CloudFormation
EMPTIED = ("MANGROVE_STAGING_BUCKET", "MANGROVE_INDEX_BUCKET")  # buckets that are deleted with the stack


def handler(event: dict[str, Any], context: Any) -> None:
    """Reports the result to CloudFormation before the function's time is over, so that a deployment never hangs."""
    reason, attributes = _work(event, context)
    if reason:
        reason = f"{reason} (log group {context.log_group_name}, request {context.aws_request_id})"
    answer = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    answer |= {"Status": "FAILED" if reason else "SUCCESS", "Reason": reason, "PhysicalResourceId": "mangrove-setup"}
    answer["Data"] = attributes
    _send(event["ResponseURL"], answer)


def _send(address: str, answer: dict[str, Any]) -> None:
    """Send the answer. Raise OSError if it does not arrive."""
    parts = urlsplit(address)
    server = ServerAddress(parts.scheme, parts.hostname or "", parts.port, parts.netloc)
    context = ssl.create_default_context() if parts.scheme == "https" else None
    connections = make_connections(server, context, ANSWER_TIMEOUT, ANSWER_TIMEOUT)
    target = parts._replace(scheme="", netloc="").geturl()
    headers = {"host": parts.netloc, "content-type": ""}  # the address is signed for this
    with closing(connections.send("PUT", target, headers, json.dumps(answer).encode())) as response:
        if response.status >= 300:
            raise OSError(f"CloudFormation's address answers {response.status}")


def _work(event: dict[str, Any], context: Any) -> tuple[str, dict[str, str]]:
    """Do the requested work. Return the reason of its failure for people, "" for a success, and the attributes of the
    resource.
    """
    worker = ThreadPoolExecutor(1)
    try:
        work = worker.submit(_empty if event["RequestType"] == "Delete" else _run, event)
        if not wait([work], context.get_remaining_time_in_millis() / 1000 - SPARE_SECONDS).done:
            return (
                "the set-up takes longer than its function may run: what it did stays done, deploy or delete again",
                {},
            )
        return "", work.result()
    except Problem as problem:
        return problem.message[:REASON_LETTERS], {}
    except (BotoCoreError, ClientError, ImportError, ValueError) as error:  # a refused call, or an invalid parameter
        log_exception("set-up failed")
        name = error.response["Error"]["Code"] if isinstance(error, ClientError) else type(error).__name__
        return f"{name}: {error}"[:REASON_LETTERS], {}
    except Exception as error:  # its text may have any content
        log_exception("set-up failed")
        return f"{type(error).__name__}, see the log", {}
    finally:
        worker.shutdown(wait=False, cancel_futures=True)


def _run(event: dict[str, Any]) -> dict[str, str]:
    """Make the missing keys, upgrade the records and make the missing ones. Return the attributes of the resource.

    The imports read the environment, that is the parameters of the deployment: they are here, so that CloudFormation
    gets the errors.
    """
    from mangrove.cloud import keys
    from mangrove.configuration import first_start
    from mangrove.configuration.settings import store_visible
    from mangrove.identity import passwords
    from mangrove.identity.rights import ADMIN_PERMISSION
    from mangrove.records.store import upgrade
    from mangrove.tasks.upgrade import upgrade_task

    # the version that the template had before this deployment, which no record can lower
    known = int(event.get("OldResourceProperties", {}).get("Schema", 0))
    secret = os.environ["MANGROVE_ADMIN_SECRET"]
    keys.make_missing_keys(bool(known) or upgrade.has_records())
    attributes = _make_download_key()
    try:
        version = upgrade.read_version(known)
    except upgrade.NewerSchema as problem:
        # A failure here while the stack is rolled back would leave it in UPDATE_ROLLBACK_FAILED. The alarm on the
        # metric informs the operator: the functions do not check the version of the records.
        log_warning("records are newer than the program", reason=problem.message)
        emit({NEWER_RECORDS: 1})
        return attributes
    upgrade.upgrade(version, upgrade.make_steps(upgrade_task))
    first_start.run(None, partial(_read_first_password, secret), passwords.hash_password, ADMIN_PERMISSION)
    store_visible()
    _protect_tables()
    return attributes


def _make_download_key() -> dict[str, str]:
    """Return the public key for CloudFront as an attribute; none if the stack has no distribution."""
    from mangrove.cloud.keys import make_download_key
    from mangrove.core.config import config

    secret = config().download_key_secret
    return {"DownloadPublicKey": make_download_key(secret)} if secret else {}


def _read_first_password(secret: str) -> str:
    """Read the password of the administrator of a new stack. People may delete its secret after their first sign-in."""
    return str(ServiceClient(SECRETS).call("GetSecretValue", {"SecretId": secret})["SecretString"])


def _protect_tables() -> None:
    """Switch the deletion protection of the tables with users' data on or off.

    The template cannot do it: a first creation that fails could not remove its tables again.
    """
    from mangrove.records.store.base import table_name

    is_protected = os.environ["MANGROVE_PROTECTION"] == "on"
    client = ServiceClient(RECORDS)
    tables = [table_name(kind) for kind in os.environ["MANGROVE_PROTECTED_TABLES"].split(",")]
    for table in [*tables, os.environ["MANGROVE_OLD_TASKS"]]:
        description = client.call("DescribeTable", {"TableName": table})["Table"]
        if description.get("DeletionProtectionEnabled", False) != is_protected:
            client.call("UpdateTable", {"TableName": table, "DeletionProtectionEnabled": is_protected})


def _empty(_: dict[str, Any]) -> dict[str, str]:
    """Delete all objects, with all of their versions, of the buckets that CloudFormation deletes next. Return nothing
    that others refer to.
    """
    store = aws.create_client("s3")
    for variable in EMPTIED:
        bucket = os.environ[variable]
        for page in store.get_paginator("list_object_versions").paginate(Bucket=bucket):
            versions = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
            if versions:
                _delete(store, bucket, [{key: version[key] for key in ("Key", "VersionId")} for version in versions])
    return {}


def _delete(store: Any, bucket: str, objects: list[dict[str, str]]) -> None:
    answer = store.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
    for error in answer.get("Errors", ()):
        raise ValueError(f"{bucket}: {error['Key']} was not deleted: {error['Code']} {error['Message']}")
