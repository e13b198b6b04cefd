"""The options of a WebDAV storage."""

from __future__ import annotations

from typing import Literal

import httpx
import idna

from mangrove.core.problems import StorageProblem
from mangrove.drivers.options import TrashOptions, option


class WebDavOptions(TrashOptions):
    vendor: Literal["sharepoint", "other", ""] = option("other")
    address: str = option(required=True)
    username: str = option(required=True)
    password: str = option(required=True, secret=True)
    root_folder_path: str = option("/", required=True)
    tls_insecure_skip_verify: bool = option(False)


def parse_address(text: str) -> httpx.URL:
    """Return the address of a server, with https unless it has a scheme. Raise StorageProblem for an invalid one."""
    text = text.strip()
    if not text:
        raise StorageProblem("address is required")
    try:
        url = httpx.URL(text if "://" in text else f"https://{text}")
    except (httpx.InvalidURL, idna.IDNAError, ValueError):
        raise StorageProblem("address is not a web address") from None
    if url.scheme not in ("http", "https") or not url.host or (url.port or 1) > 65535:
        raise StorageProblem("address is not a web address")
    if url.userinfo or url.query or url.fragment:
        raise StorageProblem("address has more than scheme, host, port and path")
    return url
