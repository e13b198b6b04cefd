"""The configuration in the environment, read once per process at the first use."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mangrove.core import runtime

if TYPE_CHECKING:
    from mangrove.core.platform import Platform


def _variable(name: str, default: str, parse: Callable[[str], Any] = str) -> Any:
    """A field whose default is read from the environment when the object is made. ValueError names the variable."""

    def read() -> Any:
        text = os.environ.get(name, default)
        try:
            return parse(text)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    return field(default_factory=read)


def _read_path(name: str) -> Path | None:
    text = os.environ.get(name)
    return Path(text) if text else None


def _parse_seconds(text: str) -> float | None:
    return None if text == "never" else float(text)


def _parse_networks(text: str) -> tuple[str, ...]:
    """Return comma-separated addresses and networks. Raise ValueError for other texts."""
    networks = tuple(part.strip() for part in text.split(",") if part.strip())
    for network in networks:
        ip_network(network, strict=False)
    return networks


ACCESS_LOGS = ("all", "errors", "none")  # the requests that are logged


def _parse_access_log(text: str) -> str:
    if text not in ACCESS_LOGS:
        raise ValueError(f'"{text[:40]}" is none of {", ".join(ACCESS_LOGS)}')
    return text


CONFIGURATIONS = ("all", "without storages", "public")


def _parse_configuration(text: str) -> str:
    if text not in CONFIGURATIONS:
        raise ValueError(f'"{text[:40]}" is none of {", ".join(CONFIGURATIONS)}')
    return text


def _parse_switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise ValueError(f'"{text[:40]}" is neither on nor off')
    return text == "on"


@dataclass(frozen=True)  # without slots, for `platform`
class Config:
    """The configuration of a process."""

    tables: str = _variable("MANGROVE_TABLES", "mangrove")
    """The prefix of the names of the tables, or each name as `kind=name`, comma-separated."""
    key_file: Path | None = field(default_factory=lambda: _read_path("MANGROVE_KEY_FILE"))
    """The file with the master key."""
    integrity_key_secret: str = _variable("MANGROVE_INTEGRITY_KEY_SECRET", "")
    """The secret in Secrets Manager with the key of the MACs of records."""
    token_key_secret: str = _variable("MANGROVE_TOKEN_KEY_SECRET", "")
    """The secret with the key that signs tokens."""
    encryption_key_secret: str = _variable("MANGROVE_ENCRYPTION_KEY_SECRET", "")
    """The secret with the master key."""
    data: Path | None = field(default_factory=lambda: _read_path("MANGROVE_DATA"))
    """The data directory."""
    configuration: str = _variable("MANGROVE_CONFIGURATION", "all", _parse_configuration)
    """The part of the configuration that this process reads; "public": the settings that everybody may see."""
    records_socket: str = _variable("MANGROVE_RECORDS_SOCKET", "")
    """The Unix socket that gives connections to the records engine; "" if it is not needed."""
    site_url: str = _variable("MANGROVE_SITE_URL", "", lambda text: text.rstrip("/"))
    snapshot_seconds: float | None = _variable("MANGROVE_SNAPSHOT_SECONDS", "2", _parse_seconds)
    """The time for which a snapshot is valid; None: forever."""
    token_hours: int = _variable("MANGROVE_TOKEN_HOURS", "48", int)
    page: Path | None = field(default_factory=lambda: _read_path("MANGROVE_PAGE"))
    """The folder of the built page, in the cloud."""
    access_log: str = _variable("MANGROVE_ACCESS_LOG", "all", _parse_access_log)
    is_function: bool = _variable("AWS_LAMBDA_FUNCTION_NAME", "", bool)
    """True in a Lambda function."""
    tracing: bool = _variable("MANGROVE_TRACING", "off", _parse_switch)
    """In a function, calls of AWS are traced by X-Ray; on one machine, requests by OpenTelemetry."""
    trusted_proxies: tuple[str, ...] = _variable("MANGROVE_TRUSTED_PROXIES", "", _parse_networks)
    proxy_secret: str = _variable("MANGROVE_PROXY_SECRET", "")
    """The text that a trusted proxy sends in a header; "" if its address is enough."""
    files_bucket: str = _variable("MANGROVE_FILES_BUCKET", "")
    """The bucket of the deployment for files."""
    download_domain: str = _variable("MANGROVE_DOWNLOAD_DOMAIN", "")
    """The domain of CloudFront that serves the objects of this bucket; "" for S3 itself."""
    staging_bucket: str = _variable("MANGROVE_STAGING_BUCKET", "")
    """The bucket of the deployment for staged files."""
    staged_domain: str = _variable("MANGROVE_STAGED_DOMAIN", "")
    """The domain of CloudFront that serves the objects of that bucket; "" for S3 itself."""
    download_key_id: str = _variable("MANGROVE_DOWNLOAD_KEY_ID", "")
    """The id by which CloudFront knows the key that signs links."""
    download_key_secret: str = _variable("MANGROVE_DOWNLOAD_KEY_SECRET", "")
    """The secret with this key."""

    def __post_init__(self) -> None:
        needed = {
            "MANGROVE_FILES_BUCKET": self.files_bucket,
            "MANGROVE_DOWNLOAD_KEY_ID": self.download_key_id,
            "MANGROVE_DOWNLOAD_KEY_SECRET": self.download_key_secret,
        }
        missing = [name for name, value in needed.items() if self.download_domain and not value]
        if missing:
            raise ValueError(f"MANGROVE_DOWNLOAD_DOMAIN needs {' and '.join(missing)}")

    @property
    def platform_name(self) -> str:
        """The name of the package that implements the platform: "standalone" for a process with a data directory."""
        return "standalone" if self.data is not None and not self.is_function else "cloud"

    @cached_property
    def platform(self) -> Platform:
        """The platform that this configuration describes."""
        made: Platform = import_module(f"mangrove.{self.platform_name}.platform").make_platform(self)
        return made


def config() -> Config:
    """Return the configuration of this process."""
    return runtime.get(Config)
