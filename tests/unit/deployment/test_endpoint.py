"""The address of API Gateway beside an own domain, against moto."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from deployment import endpoint
from mangrove.standalone import template

REGION = "us-east-1"


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any]]:
    """CloudFormation and API Gateway."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        yield boto3.client("cloudformation", REGION), boto3.client("apigatewayv2", REGION)


def make_body(api: str) -> str:
    """Return a template with the parameter and the output that matter."""
    return json.dumps({
        "Parameters": {"DomainName": {"Type": "String", "Default": ""}},
        "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
        "Outputs": {"ApiId": {"Value": api}},
    })  # fmt: skip


def test_address_is_closed_with_a_domain_and_open_without(clients: tuple[Any, Any]) -> None:
    formation, gateway = clients
    api = gateway.create_api(Name="files", ProtocolType="HTTP")["ApiId"]

    def read_closed() -> bool:
        return bool(gateway.get_api(ApiId=api)["DisableExecuteApiEndpoint"])

    formation.create_stack(StackName="files", TemplateBody=make_body(api))
    assert not endpoint.set_endpoint(formation, gateway, "files") and not read_closed()
    for domain in ("files.example.org", ""):
        parameters = [{"ParameterKey": "DomainName", "ParameterValue": domain}]
        formation.update_stack(StackName="files", TemplateBody=make_body(api), Parameters=parameters)
        assert endpoint.set_endpoint(formation, gateway, "files") is bool(domain)
        assert read_closed() is bool(domain)


def test_template_has_the_parameter_and_the_output() -> None:
    loaded = template.load_template()
    assert endpoint.DOMAIN in loaded["Parameters"]
    assert loaded["Outputs"][endpoint.API]["Value"] == {"Ref": "ServerlessHttpApi"}
