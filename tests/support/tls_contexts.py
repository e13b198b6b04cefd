"""The trusted certificates, read once per process.

Every client of httpx reads them again, also one of a server without TLS. That takes 0.03 s of CPU, and tests make
thousands of clients.
"""

from __future__ import annotations

import os
import ssl
from functools import cache
from typing import Any

import httpx
from httpx._config import create_ssl_context
from httpx._transports import default


@cache
def _load_trusted(*_variables: str | None) -> ssl.SSLContext:
    return create_ssl_context()


def _create_context(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
    if verify is not True or cert is not None or not trust_env:
        return create_ssl_context(verify, cert, trust_env)
    return _load_trusted(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


def share() -> None:
    """Let all clients of this process share what the first one reads."""
    httpx.create_ssl_context = _create_context
    default.create_ssl_context = _create_context
