"""Old versions of functions, deleted after a deployment, against moto."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from deployment import versions

REGION = "us-east-1"
TRUST = {"Version": "2012-10-17", "Statement": []}


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Lambda, with a function `f` that has eight versions."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        role = boto3.client("iam", REGION).create_role(RoleName="r", AssumeRolePolicyDocument=json.dumps(TRUST))
        made = boto3.client("lambda", REGION)
        made.create_function(
            FunctionName="f", Runtime="python3.13", Role=role["Role"]["Arn"], Handler="f.handler",
            Code={"ZipFile": make_code(0)},
        )  # fmt: skip
        for number in range(1, 9):
            made.update_function_code(FunctionName="f", ZipFile=make_code(number), Publish=True)
        yield made


def make_code(number: int) -> bytes:
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("f.py", f"NUMBER = {number}")
    return code.getvalue()


def list_versions(client: Any) -> list[str]:
    return [version["Version"] for version in client.list_versions_by_function(FunctionName="f")["Versions"]]


def test_last_versions_and_those_of_an_alias_stay(client: Any) -> None:
    before = [version for version in list_versions(client) if version != versions.LATEST]
    client.create_alias(FunctionName="f", Name="live", FunctionVersion=before[0])
    deleted = versions.delete_old(client, "f")
    assert deleted == before[1 : -versions.MAX_VERSIONS] and deleted
    left = [version for version in list_versions(client) if version != versions.LATEST]
    assert left == [before[0], *before[-versions.MAX_VERSIONS :]]
    assert versions.delete_old(client, "f") == []


def test_with_snapshots_only_the_version_in_use_stays(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "has_snapshot", lambda version: True)  # moto knows no SnapStart
    before = [version for version in list_versions(client) if version != versions.LATEST]
    client.create_alias(FunctionName="f", Name="live", FunctionVersion=before[-1])
    versions.delete_old(client, "f")
    assert list_versions(client) == [versions.LATEST, before[-1]]


def test_versions_of_a_canary_are_in_use() -> None:
    alias = {"FunctionVersion": "3", "RoutingConfig": {"AdditionalVersionWeights": {"4": 0.1}}}
    assert versions._list_versions(alias) == {"3", "4"}
