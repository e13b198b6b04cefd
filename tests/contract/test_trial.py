"""A throw-away deployment: used over HTTP, billed, and removed with all that a stack leaves."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mangrove.client
from deployment import journey, trial
from deployment.journey import BUCKET_REQUEST, COPIED, OTHER_REQUEST, format_bill, read_prices
from tests import servers
from tests.support.service import ADMIN_PASSWORD, Service

STACK, REGION, SECRET = "throw-away", "us-east-1", "throw-away-secret"  # moto makes no secret of a template
PRICES = read_prices(journey.COSTS.read_text())


def make_template(address: str) -> str:
    """Return a stack with a resource of each kind that the removal of a stack leaves."""
    key = {"AttributeName": "key", "KeyType": "HASH"}
    table = {
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": "key", "AttributeType": "S"}],
        "KeySchema": [key],
    }
    retained = {"DeletionPolicy": "Retain"}
    resources = {
        "Files": {"Type": "AWS::S3::Bucket"} | retained,
        "Users": {"Type": "AWS::DynamoDB::Table", "Properties": table} | retained,
        "Queue": {"Type": "AWS::SQS::Queue"},
    }
    outputs = {"Address": {"Value": address}, "AdminSecret": {"Value": SECRET}}
    return json.dumps({"AWSTemplateFormatVersion": "2010-09-09", "Resources": resources, "Outputs": outputs})


class Account:
    """An account in which stacks are made."""

    def __init__(self, endpoint: str) -> None:
        self.client: Callable[[str], Any] = lambda service: servers.make_client(service, endpoint)
        self.removed = False

    def deploy(self, address: str, password: str = ADMIN_PASSWORD) -> None:
        """Create the stack, and store what another program would."""
        self.client("cloudformation").create_stack(StackName=STACK, TemplateBody=make_template(address))
        self.client("secretsmanager").create_secret(Name=SECRET, SecretString=password)
        (bucket,) = self.list_names("AWS::S3::Bucket")
        self.client("s3").put_object(Bucket=bucket, Key="left", Body=b"x")

    def undeploy(self) -> None:
        self.client("cloudformation").delete_stack(StackName=STACK)
        self.removed = True

    def list_names(self, kind: str) -> list[str]:
        pages = self.client("cloudformation").list_stack_resources(StackName=STACK)["StackResourceSummaries"]
        return [row["PhysicalResourceId"] for row in pages if row["ResourceType"] == kind]


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    with servers.moto_s3() as endpoint:
        for name in [name for name in os.environ if name.startswith("AWS_ENDPOINT_URL")]:
            monkeypatch.delenv(name)  # another test of this process may use the records engine
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, servers.KEYS[name.removeprefix("AWS_").lower()])
        account = Account(endpoint)
        yield account
        account.client("cloudformation").delete_stack(StackName=STACK)
        trial.remove("AWS::SecretsManager::Secret", SECRET, REGION)


def list_left(account: Account) -> list[str]:
    """Return the buckets, tables and secrets of the stack that are there."""
    buckets = [bucket["Name"] for bucket in account.client("s3").list_buckets()["Buckets"]]
    tables = account.client("dynamodb").list_tables()["TableNames"]
    return [name for name in (*buckets, *tables) if STACK in name.lower()]


def test_secret_is_removed_for_good_and_once(account: Account) -> None:
    client = account.client("secretsmanager")
    client.create_secret(Name=SECRET, SecretString="x")
    for _ in range(2):
        trial.remove("AWS::SecretsManager::Secret", SECRET, REGION)
    secrets = client.list_secrets(IncludePlannedDeletion=True)["SecretList"]  # other tests of this process have some
    assert SECRET not in {secret["Name"] for secret in secrets}


def test_trial_uses_the_service_prints_the_bill_and_leaves_nothing(
    account: Account, service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    trial.run(STACK, REGION, lambda: account.deploy(service.address), account.undeploy)
    bill = capsys.readouterr().out.splitlines()
    assert bill[0] == "| request | number | $ per million | $ |"
    numbers = {row.split(" | ")[0].removeprefix("| "): row.split(" | ")[1] for row in bill[2:]}
    assert numbers["sign in"] == "1" and numbers["put 1 MB"] == "1" and numbers[COPIED] == "2"
    assert "total, without traffic and storage" in numbers
    assert account.removed and list_left(account) == []
    assert service.client().ok("/api/fs/list", path="/files")["content"] is not None
    names = [entry["name"] for entry in service.client().ok("/api/fs/list", path="/files", refresh=True)["content"]]
    assert not [name for name in names if name.startswith("trial-")]


def test_stack_of_a_trial_that_fails_is_removed(account: Account, service: Service) -> None:
    with pytest.raises(mangrove.client.ClientError, match="Invalid username or password"):
        trial.run(STACK, REGION, lambda: account.deploy(service.address, "another"), account.undeploy)
    assert account.removed and list_left(account) == []


def test_deployment_that_fails_leaves_nothing(account: Account) -> None:
    def fail() -> None:
        account.deploy("http://127.0.0.1:9")
        raise subprocess.CalledProcessError(2, ["make", "deploy"])

    with pytest.raises(subprocess.CalledProcessError):
        trial.run(STACK, REGION, fail, account.undeploy)
    assert account.removed and list_left(account) == []


def test_stack_that_exists_is_refused_and_stays(account: Account, service: Service) -> None:
    parameters = [{"ParameterKey": "Release", "ParameterValue": "1"}]
    body = json.dumps(json.loads(make_template(service.address)) | {"Parameters": {"Release": {"Type": "String"}}})
    account.client("cloudformation").create_stack(StackName=STACK, TemplateBody=body, Parameters=parameters)
    with pytest.raises(ValueError, match="exists"):
        trial.run(STACK, REGION, lambda: account.deploy(service.address), account.undeploy)
    assert not account.removed and list_left(account)


@pytest.mark.parametrize(
    ("path", "row"),
    [
        ("/api/auth/login", "sign in"),
        ("/api/fs/get", "get one file"),
        ("/d/a", "download, redirected"),
        ("/x", OTHER_REQUEST),
    ],
)
def test_request_is_priced_by_its_row_of_the_table(path: str, row: str) -> None:
    assert journey.find_row(path) == row and PRICES[row] > 0


def test_bill_is_the_sum_of_numbers_and_prices() -> None:
    *_, total = format_bill({"sign in": 1_000_000, BUCKET_REQUEST: 2_000_000}, PRICES)
    assert total.endswith(f"| 3000000 | | {PRICES['sign in'] + 10:.6f} |")


def test_table_without_a_row_is_refused() -> None:
    with pytest.raises(ValueError, match="no row copy within S3"):
        read_prices("| sign in | 3 | 0 | 2 | ≤ 3 | 5.97 |")
