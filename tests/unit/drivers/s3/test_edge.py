"""Links through CloudFront: the storages that have them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mangrove.core import runtime
from mangrove.core.runtime import Runtime
from mangrove.drivers.s3.links import CACHED_PARAMETERS, find_signer
from mangrove.drivers.s3.options import S3Options
from mangrove.standalone import template

VARIABLES = {
    "MANGROVE_FILES_BUCKET": "files",
    "MANGROVE_DOWNLOAD_DOMAIN": "d1.cloudfront.net",
    "MANGROVE_STAGING_BUCKET": "staging",
    "MANGROVE_STAGED_DOMAIN": "d2.cloudfront.net",
    "MANGROVE_DOWNLOAD_KEY_ID": "K1",
    "MANGROVE_DOWNLOAD_KEY_SECRET": "secret",
    "AWS_LAMBDA_FUNCTION_NAME": "downloads",
}


@pytest.fixture
def function(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The environment of a function in a stack with a distribution."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    with runtime.use(Runtime()):
        yield monkeypatch


def make_options(**more: str) -> S3Options:
    return S3Options(**({"bucket": "files", "endpoint": ""} | more))


def test_own_bucket_has_links_at_the_edge(function: pytest.MonkeyPatch) -> None:
    assert find_signer(make_options()) is not None
    assert find_signer(make_options(root_folder_path="/deep")) is not None
    assert find_signer(make_options(bucket="staging")) is not None


@pytest.mark.parametrize(
    "other",
    [
        {"bucket": "other"},
        {"endpoint": "https://s3.example.com"},
        {"access_key_id": "theirs", "secret_access_key": "s"},
        {"custom_host": "cdn.example.com"},
    ],
)
def test_other_storage_has_links_of_its_own(function: pytest.MonkeyPatch, other: dict[str, str]) -> None:
    assert find_signer(make_options(**other)) is None


def test_stack_without_a_distribution_has_no_links_at_the_edge(function: pytest.MonkeyPatch) -> None:
    function.setenv("MANGROVE_DOWNLOAD_DOMAIN", "")
    with runtime.use(Runtime()):
        assert find_signer(make_options()) is None
        assert find_signer(make_options(bucket="")) is None


def test_standalone_service_has_no_links_at_the_edge(function: pytest.MonkeyPatch, tmp_path: Path) -> None:
    function.delenv("AWS_LAMBDA_FUNCTION_NAME")
    function.setenv("MANGROVE_DATA", str(tmp_path))
    with runtime.use(Runtime()):
        assert find_signer(make_options()) is None


def test_cache_tells_the_parameters_of_links_apart() -> None:
    policy = template.load_template()["Resources"]["DownloadCache"]["Properties"]["CachePolicyConfig"]
    parameters = policy["ParametersInCacheKeyAndForwardedToOrigin"]["QueryStringsConfig"]
    assert parameters == {"QueryStringBehavior": "whitelist", "QueryStrings": list(CACHED_PARAMETERS)}
