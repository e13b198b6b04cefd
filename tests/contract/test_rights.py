"""The rights that the template gives to each function are enough for what it does, and no more than it ever uses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mangrove.core import runtime
from mangrove.core.runtime import Runtime
from mangrove.drivers.s3 import objects as s3upload
from mangrove.records.store.encryption import compute_mac
from mangrove.records.store.keys import Key, keyring
from mangrove.records.store.upgrade import UPGRADABLE, VERSION
from mangrove.standalone import template
from tests.contract import (
    bucket_scenario,
    identity_scenarios,
    mcp_scenario,
    scenarios,
    task_scenarios,
    trash_scenario,
    webdav_scenarios,
)
from tests.contract.scenarios import Person
from tests.contract.test_events import run_samples
from tests.support import lambdas, recorder
from tests.support.policies import FUNCTIONS, Policy, covers, read_inline, read_managed
from tests.support.recorder import Right

pytestmark = [
    pytest.mark.xdist_group("cloud"),  # one deployment for both modules that send the samples
    pytest.mark.timeout(1800),  # the set-up of the first test runs all scenarios, which takes minutes
]

MAX_EVENT_BYTES = 6 << 20  # bytes that Lambda hands to a function


@pytest.fixture(scope="module", autouse=True)
def done(cloud: lambdas.Cloud) -> None:
    """Every function of the deployment has done all it does."""
    assert cloud.run_setup()["Status"] == "SUCCESS"
    run_samples(cloud)
    admin = Person(cloud).sign_in("admin", lambdas.ADMIN_PASSWORD)
    token = identity_scenarios.UnusedToken(admin)
    scenarios.accounts(admin)
    scenarios.enter_by_transfer_family(admin)
    scenarios.configuration(admin)
    scenarios.files(admin)
    trash_scenario.run(admin)
    webdav_scenarios.webdav(admin)
    identity_scenarios.run_all(admin)
    task_scenarios.run_all(admin)
    bucket_scenario.run(admin)
    mcp_scenario.run(admin)
    token.use()
    upgrade(cloud)
    remove(cloud)


def remove(cloud: lambdas.Cloud) -> None:
    """Empty what is deleted with the stack, as it is told before it is."""
    store = cloud.client("s3")
    for bucket in ("Staging", "Index"):
        store.put_object(Bucket=cloud.refs[bucket], Key="left/over", Body=b"x")
    assert cloud.run_setup(RequestType="Delete")["Status"] == "SUCCESS"
    for bucket in ("Staging", "Index"):
        assert "Contents" not in store.list_objects_v2(Bucket=cloud.refs[bucket])


OLD_TASK = {
    "id": {"S": "old"}, "shelf": {"S": "1#copy#gone"}, "spread": {"S": "copy#gone#3"}, "ordered": {"S": "0#old"},
    "kind": {"S": "copy"}, "owner": {"N": "1"}, "shown": {"S": "{}"}, "facts": {"B": b"sealed"}, "turn": {"N": "2"},
    "created": {"N": "1"},
}  # fmt: skip
OLD_UPLOAD = {"place": {"S": "old"}, "item": {"S": "x"}, "facts": {"S": "{}"}}


def note_version(cloud: lambdas.Cloud, version: int, program: str) -> None:
    """Write the version of the records, as this deployment does."""
    secret = cloud.client("secretsmanager").get_secret_value(SecretId=cloud.refs["IntegrityKey"])["SecretString"]
    item: dict[str, Any] = {"key": {"S": "schema"}, "value": {"N": str(version)}, "program": {"S": program}}
    with runtime.use(Runtime()):
        keyring().put(Key.INTEGRITY, bytes.fromhex(secret))
        item["mac"] = {"B": compute_mac("counters", item)}
    cloud.client("dynamodb").put_item(TableName=cloud.refs["Counters"], Item=item)


def upgrade(cloud: lambdas.Cloud) -> None:
    """Upgrade records of 0.3.0 to the present version as a deployment does; then the version cannot be lowered."""
    client, key = cloud.client("dynamodb"), {"key": {"S": "schema"}}
    counters = cloud.refs["Counters"]
    noted = client.get_item(TableName=counters, Key=key)["Item"]
    note_version(cloud, UPGRADABLE, "0.3.0")
    client.put_item(TableName=cloud.refs["Tasks"], Item=OLD_TASK)
    client.put_item(TableName=cloud.refs["Uploads"], Item=OLD_UPLOAD)
    known, before = {"Schema": str(VERSION)}, {"Schema": str(UPGRADABLE)}
    answer = cloud.run_setup(RequestType="Update", ResourceProperties=known, OldResourceProperties=before)
    assert answer["Status"] == "SUCCESS", answer
    note_version(cloud, UPGRADABLE, "0.3.0")
    answer = cloud.run_setup(RequestType="Update", ResourceProperties=known, OldResourceProperties=known)
    assert answer["Status"] == "FAILED"
    assert "of version 3, but they were of version 4 before" in answer["Reason"]
    note_version(cloud, VERSION + 1, "0.5.0")
    answer = cloud.run_setup(RequestType="Update", ResourceProperties=known, OldResourceProperties=known)
    assert answer["Status"] == "SUCCESS", "rolling the stack back has to end"
    client.put_item(TableName=counters, Item=noted)
    assert cloud.run_setup(RequestType="Update", OldResourceProperties=known)["Status"] == "SUCCESS"
    for name, table in template.iter_resources("AWS::DynamoDB::Table"):
        description = client.describe_table(TableName=cloud.refs[name])["Table"]
        is_owned = table.get("DeletionPolicy") == "RetainExceptOnCreate"
        assert description.get("DeletionProtectionEnabled", False) is is_owned, name


def test_deployment_that_raises_the_version_upgrades_the_records(cloud: lambdas.Cloud) -> None:
    (setup,) = (resource for _, resource in template.iter_resources("Custom::MangroveSetup"))
    assert setup["Properties"]["Schema"] == str(VERSION), "CloudFormation calls the set-up for a new value"
    client = cloud.client("dynamodb")
    task = client.get_item(TableName=cloud.refs["TaskRecords"], Key={"id": {"S": "old"}})["Item"]
    assert (task["owner_key"], task["shard_key"]) == ({"S": "1#copy#removed"}, {"S": "copy#removed#3"})
    assert (task["attempt"], task["view"], task["spec"]) == ({"N": "2"}, {"S": "{}"}, {"B": b"sealed"})
    place = {name: OLD_UPLOAD[name] for name in ("place", "item")}
    upload = client.get_item(TableName=cloud.refs["Uploads"], Key=place)["Item"]
    assert upload == place | {"spec": {"S": "{}"}}
    client.delete_item(TableName=cloud.refs["TaskRecords"], Key={"id": {"S": "old"}})
    client.delete_item(TableName=cloud.refs["Uploads"], Key=place)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_may_do_all_it_does(cloud: lambdas.Cloud, name: str) -> None:
    assert cloud.get_function(name).used
    policy = Policy(name, cloud.refs)
    assert not {need for need in cloud.get_function(name).used if not policy.grants({need})}


def list_unreached(cloud: lambdas.Cloud, name: str) -> set[Right]:
    """Return the rights of a function that no scenario needs.

    Packing that is retried after it stored parts drops them when it plans again. The record of the index is made
    once, before the scenarios follow the stream. A request of a ZIP file drops its selection if its task cannot be
    stored. Uploads read the state that a driver shares between processes unless they have it in memory. A name that
    another function holds is read.
    """
    staging, index = cloud.refs["Staging"], cloud.refs["IndexMachine"]
    held_names = {
        right
        for right in read_inline(name, cloud.refs)
        if right[0] == "dynamodb:GetItem" and right[1].startswith(f"{cloud.refs['Counters']}/") and "hold#*" in right[1]
    }
    unreached: dict[str, set[Right]] = {
        "CompressPlan": {
            ("s3:ListBucket", staging),
            ("s3:AbortMultipartUpload", f"{staging}/*"),
            ("s3:PutObject", f"{staging}/abandoned/*"),
        },
        "FilesFunction": {("s3:DeleteObject", f"{staging}/*/selection")},
        "TaskStreamFunction": {("states:StartExecution", index)},
        "UploadsFunction": {("dynamodb:GetItem", cloud.refs["Storages"])},
    }
    return unreached.get(name, set()) | held_names


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_uses_every_right_that_is_its_own(cloud: lambdas.Cloud, name: str) -> None:
    idle = {
        right
        for right in read_inline(name, cloud.refs)
        if not any(covers(right, need) for need in cloud.get_function(name).used)
    }
    assert idle <= list_unreached(cloud, name)


@pytest.mark.parametrize(
    "name", [name for name, function in FUNCTIONS.items() if {"Ref": "ReadUsers"} in function["Policies"]]
)
def test_who_may_read_users_asks_who_somebody_is(cloud: lambdas.Cloud, name: str) -> None:
    tables = {cloud.refs[table] for table in ("Users", "Names", "Sessions", "AppPasswords")}
    users = {right for right in read_managed(name, cloud.refs) if right[1].partition("/")[0] in tables}
    assert any(covers(right, need) for right in users for need in cloud.get_function(name).used)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_may_read_the_keys_that_it_uses_and_no_other(cloud: lambdas.Cloud, name: str) -> None:
    keys = {cloud.refs[key]: key for key in ("IntegrityKey", "TokenKey", "MasterKey")}
    action = "secretsmanager:GetSecretValue"
    rights = read_inline(name, cloud.refs) | read_managed(name, cloud.refs)
    held = {keys[place] for verb, place in rights if verb == action and place in keys}
    used = {keys[place] for verb, place in cloud.get_function(name).used if verb == action and place in keys}
    assert held == used


def test_what_everybody_may_call_reads_no_users(cloud: lambdas.Cloud) -> None:
    rights = read_inline("SiteFunction", cloud.refs) | read_managed("SiteFunction", cloud.refs)
    private = {
        cloud.refs[name]
        for name in (
            "Users", "Names", "Sessions", "SshKeys", "Tasks", "TaskRecords", "Uploads", "Storages", "Metas", "Groups",
            "MasterKey", "TokenKey",
        )
    }  # fmt: skip
    assert not {place for _, place in rights if place.partition("/")[0] in private}


def test_every_right_that_all_functions_have_is_used_by_several(cloud: lambdas.Cloud) -> None:
    rights = {right for name in FUNCTIONS for right in read_managed(name, cloud.refs)}
    # a restore that takes a task, and a clean-up, read and delete versions besides
    of_versions = {("s3:ListBucketVersions", cloud.refs["Files"])} | {
        (f"s3:{verb}ObjectVersion", f"{cloud.refs['Files']}/*") for verb in ("Get", "Delete")
    }
    of_trash = {right for right in rights if right[1].startswith(cloud.refs["Trash"])}
    # no scenario reads a version that a storage other than a bucket keeps
    unreached = {("dynamodb:GetItem", cloud.refs["Trash"])}
    for right in rights - unreached:
        holders = [name for name in FUNCTIONS if right in read_managed(name, cloud.refs)]
        users = [name for name in holders if any(covers(right, need) for need in cloud.get_function(name).used)]
        assert len(users) >= min(len(holders), 1 if right in of_versions | of_trash else 2), (right, users)


def test_no_function_upload_reaches_size_of_parts() -> None:
    assert s3upload.PART > MAX_EVENT_BYTES


TABLES = {"TransactItems": [
    {"Put": {"TableName": "a"}}, {"Delete": {"TableName": "b"}}, {"Update": {"TableName": "c"}},
    {"ConditionCheck": {"TableName": "d"}},
]}  # fmt: skip
DELETE = b'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Object><Key>d/a&amp;b</Key></Object></Delete>'
DELETE_VERSION = b"<Delete><Object><Key>a</Key><VersionId>null</VersionId></Object></Delete>"


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "needs"),
    [
        ("POST", "/", {"x-amz-target": "DynamoDB_20120810.Scan"}, b'{"TableName": "a"}', {("dynamodb:Scan", "a")}),
        (
            "POST", "/", {"x-amz-target": "DynamoDB_20120810.TransactWriteItems"}, json.dumps(TABLES).encode(),
            {
                ("dynamodb:PutItem", "a"), ("dynamodb:DeleteItem", "b"), ("dynamodb:UpdateItem", "c"),
                ("dynamodb:ConditionCheckItem", "d"),
            },
        ),
        (
            "POST", "/", {"x-amz-target": "secretsmanager.GetSecretValue"}, b'{"SecretId": "arn"}',
            {("secretsmanager:GetSecretValue", "arn")},
        ),
        ("GET", "/b?prefix=d%2F&delimiter=%2F&X-Amz-Date=1", {}, b"", {("s3:ListBucket", "b")}),
        ("HEAD", "/b/a%20b", {}, b"", {("s3:GetObject", "b/a b")}),
        ("PUT", "/b/a", {}, b"", {("s3:PutObject", "b/a")}),
        ("PUT", "/b/a", {"x-amz-copy-source": "c/d%20e"}, b"", {("s3:PutObject", "b/a"), ("s3:GetObject", "c/d e")}),
        ("PUT", "/b/a?partNumber=1&uploadId=u", {}, b"", {("s3:PutObject", "b/a")}),
        ("DELETE", "/b/a?uploadId=u", {}, b"", {("s3:AbortMultipartUpload", "b/a")}),
        ("DELETE", "/b/a", {}, b"", {("s3:DeleteObject", "b/a")}),
        ("POST", "/b?delete", {}, DELETE, {("s3:DeleteObject", "b/d/a&b")}),
        ("GET", "/b?versions&key-marker=k&encoding-type=url", {}, b"", {("s3:ListBucketVersions", "b")}),
        ("GET", "/b?versioning", {}, b"", {("s3:GetBucketVersioning", "b")}),
        ("HEAD", "/b/a?versionId=v", {}, b"", {("s3:GetObjectVersion", "b/a")}),
        (
            "PUT", "/b/a", {"x-amz-copy-source": "c/d?versionId=v"}, b"",
            {("s3:PutObject", "b/a"), ("s3:GetObjectVersion", "c/d")},
        ),
        ("POST", "/b?delete", {}, DELETE_VERSION, {("s3:DeleteObjectVersion", "b/a")}),
        ("GET", "/b/a?acl", {}, b"", {("s3:unknown ('GET', 'acl')", "b/a")}),
    ],
)  # fmt: skip
def test_a_call_is_noted_as_the_rights_that_iam_asks_for(
    method: str, path: str, headers: dict[str, str], body: bytes, needs: set[Right]
) -> None:
    assert recorder.find_rights(method, path, headers, body) == needs
