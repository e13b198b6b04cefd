"""Every service of opendal with options that are enough for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mangrove.drivers import registry
from mangrove.drivers.base import DriverContext
from mangrove.drivers.clouds.driver import Cloud

TOKENS = {"refresh_token": "r1", "client_id": "i1", "client_secret": "s1"}
KEYS = {"access_key_id": "i1", "secret_access_key": "s1"}
SERVICES: Mapping[str, Mapping[str, str]] = {
    "AliyunDrive": {"drive_type": "default", **TOKENS},
    "AzureBlob": {
        "container": "b", "endpoint": "https://a.blob.core.windows.net", "account_name": "a", "account_key": "c2VjcmV0",
    },
    "B2": {"bucket": "b", "bucket_id": "bi", "application_key_id": "i1", "application_key": "s1"},
    "COS": {"bucket": "b", "endpoint": "https://cos.r.myqcloud.com", "secret_id": "i1", "secret_key": "s1"},
    "Dropbox": TOKENS,
    "GCS": {"bucket": "b", "token": "t1"},
    "GoogleDrive": TOKENS,
    "OBS": {"bucket": "b", "endpoint": "https://obs.r.myhuaweicloud.com", **KEYS},
    "OSS": {"bucket": "b", "endpoint": "https://oss-r.aliyuncs.com", "access_key_id": "i1", "access_key_secret": "s1"},
    "OneDrive": TOKENS,
    "Seafile": {"endpoint": "https://files.example.org", "repo_name": "l", "username": "u", "password": "s1"},
    "Swift": {"container": "b", "endpoint": "https://swift.example.org/v1/AUTH_a", "token": "t1", "temp_url_key": "k1"},
    "TOS": {"bucket": "b", "region": "r", "endpoint": "https://tos-r.volces.com", **KEYS},
    "YandexDisk": {"access_token": "t1"},
}  # fmt: skip


def make(name: str, **more: Any) -> Any:
    """The driver of a service, not started; `more` options, None for one that is left out."""
    kind = registry.load(name)
    assert issubclass(kind, Cloud)
    options = {key: value for key, value in {**SERVICES[name], **more}.items() if value is not None}
    return kind(kind.Options.parse(json.dumps(options)), DriverContext())
