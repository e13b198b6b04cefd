"""The configuration by the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from mangrove.core import runtime
from mangrove.core.config import Config, config
from mangrove.core.runtime import Runtime

DEFAULTS = Config(
    tables="mangrove", key_file=None, integrity_key_secret="", token_key_secret="", encryption_key_secret="",
    data=None, site_url="", snapshot_seconds=2.0, token_hours=48,
    is_function=False, trusted_proxies=(),
)  # fmt: skip
VARIABLES = (
    "TABLES",
    "KEY_FILE",
    "INTEGRITY_KEY_SECRET",
    "TOKEN_KEY_SECRET",
    "ENCRYPTION_KEY_SECRET",
    "DATA",
    "SITE_URL",
    "SNAPSHOT_SECONDS",
    "TOKEN_HOURS",
    "TRUSTED_PROXIES",
)


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(f"MANGROVE_{name}", raising=False)


def test_an_empty_environment_means_the_cloud() -> None:
    assert config() == DEFAULTS
    assert config().platform_name == "cloud"


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("TABLES", "stack", "tables", "stack"), ("KEY_FILE", "/k", "key_file", Path("/k")),
        ("KEY_FILE", "", "key_file", None), ("TOKEN_KEY_SECRET", "arn", "token_key_secret", "arn"),
        ("DATA", "/d", "data", Path("/d")), ("DATA", "", "data", None),
        ("SITE_URL", "https://a.example/x//", "site_url", "https://a.example/x"),
        ("SNAPSHOT_SECONDS", "0.5", "snapshot_seconds", 0.5), ("SNAPSHOT_SECONDS", "never", "snapshot_seconds", None),
        ("TOKEN_HOURS", "1", "token_hours", 1), ("TRUSTED_PROXIES", "", "trusted_proxies", ()),
        ("TRUSTED_PROXIES", "10.0.0.1,, ::1,10.1.0.0/16", "trusted_proxies", ("10.0.0.1", "::1", "10.1.0.0/16")),
    ],
)  # fmt: skip
def test_a_variable_sets_its_field(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, field: str, value: object
) -> None:
    monkeypatch.setenv(f"MANGROVE_{name}", text)
    assert getattr(config(), field) == value
    assert config().platform_name == ("cloud" if config().data is None else "standalone")


def test_the_environment_is_read_once_per_process(monkeypatch: pytest.MonkeyPatch) -> None:
    first = config()
    monkeypatch.setenv("MANGROVE_TABLES", "another")
    assert config() is first
    with runtime.use(Runtime()):
        assert config().tables == "another"


@pytest.mark.parametrize(
    "missing", ["MANGROVE_FILES_BUCKET", "MANGROVE_DOWNLOAD_KEY_ID", "MANGROVE_DOWNLOAD_KEY_SECRET"]
)
def test_a_domain_of_downloads_without_its_key_is_refused(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    names = ("MANGROVE_FILES_BUCKET", "MANGROVE_DOWNLOAD_KEY_ID", "MANGROVE_DOWNLOAD_KEY_SECRET")
    for name in ("MANGROVE_DOWNLOAD_DOMAIN", *names):
        monkeypatch.setenv(name, "x")
    with runtime.use(Runtime()):
        assert config().download_domain == "x"
    monkeypatch.setenv(missing, "")
    with runtime.use(Runtime()), pytest.raises(ValueError, match=f"MANGROVE_DOWNLOAD_DOMAIN needs {missing}$"):
        config()


def test_a_proxy_that_is_no_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MANGROVE_TRUSTED_PROXIES", "10.0.0.1,proxy.example")
    with pytest.raises(ValueError, match=r"proxy\.example"):
        config()
