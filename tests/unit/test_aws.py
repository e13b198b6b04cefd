"""AWS's endpoints are checked against AWS's roots, all others against what is trusted everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mangrove.core import aws


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file of roots, as in a function."""
    for name in (
        "AWS_CA_BUNDLE",
        "REQUESTS_CA_BUNDLE",
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_DYNAMODB",
        "AWS_DEFAULT_REGION",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setattr(aws, "ROOTS", tmp_path / "aws-roots.pem")
    aws.ROOTS.touch()
    return str(aws.ROOTS)


def find_bundle(region: str | None = "us-east-1", **options: Any) -> Any:
    return aws.AwsSession().create_client("dynamodb", region, **options)._endpoint.http_session._verify


@pytest.mark.parametrize("region", ["us-east-1", "eu-central-2", "us-gov-west-1"])
def test_an_endpoint_of_aws_is_checked_against_its_own_roots(roots: str, region: str) -> None:
    assert find_bundle(region) == roots


@pytest.mark.parametrize("region", ["cn-north-1", "us-iso-east-1"])
def test_where_other_authorities_sign_they_are_not_used(roots: str, region: str) -> None:
    assert find_bundle(region) is True


def test_any_other_endpoint_is_checked_as_usual(roots: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_bundle(endpoint_url="https://minio.example.org") is True
    assert find_bundle(verify=False) is False
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "https://example.org")
    assert find_bundle() is True


def test_a_bundle_that_somebody_chose_is_used(roots: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", "/chosen.pem")
    assert find_bundle() == "/chosen.pem"


def test_where_none_were_put_all_that_is_trusted_counts(roots: str) -> None:
    aws.ROOTS.unlink()
    assert find_bundle() is True


def test_the_region_is_that_of_the_process(roots: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "cn-north-1")
    assert find_bundle(None) is True
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    assert find_bundle(None) == roots
