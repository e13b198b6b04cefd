"""Signature Version 4 of AWS, in the headers of a request or in its address."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import quote

ALGORITHM = "AWS4-HMAC-SHA256"
UNSIGNED = "UNSIGNED-PAYLOAD"  # in place of the hash of a body, which another checksum or TLS protects
UNRESERVED = "-._~"  # characters that a signature never encodes, beside letters and digits


class Credentials(NamedTuple):
    """Keys of an account. `token` is empty unless they expire."""

    access_key_id: str
    secret_access_key: str
    token: str


class Signer:
    """Signs requests for a service in a region, with the credentials that are valid at that moment."""

    def __init__(self, service: str, region: str, get_credentials: Callable[[], Credentials]) -> None:
        self._service = service
        self._region = region
        self._get_credentials = get_credentials
        self._key: tuple[tuple[str, str], bytes] | None = None  # of a day and a secret

    def sign(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body_hash: str
    ) -> dict[str, str]:
        """Return `headers` with those of the signature.

        The path is encoded, names of headers are in lower case, and `host` is one of them.
        """
        credentials = self._get_credentials()
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        signed = {**headers, "x-amz-content-sha256": body_hash, "x-amz-date": now}
        if credentials.token:
            signed["x-amz-security-token"] = credentials.token
        names = sorted(signed)
        lines = "".join(f"{name}:{' '.join(signed[name].split())}\n" for name in names)
        request = f"{method}\n{path}\n{encode_query(query)}\n{lines}\n{';'.join(names)}\n{body_hash}"
        signed["authorization"] = (
            f"{ALGORITHM} Credential={credentials.access_key_id}/{self._make_scope(now)}, "
            f"SignedHeaders={';'.join(names)}, Signature={self._compute(credentials, now, request)}"
        )
        return signed

    def sign_query(self, method: str, host: str, path: str, query: Mapping[str, str], seconds: int) -> str:
        """Return the query of a signed address without a body, valid for `seconds`. The path is encoded."""
        credentials = self._get_credentials()
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        signed = {
            **query,
            "X-Amz-Algorithm": ALGORITHM,
            "X-Amz-Credential": f"{credentials.access_key_id}/{self._make_scope(now)}",
            "X-Amz-Date": now,
            "X-Amz-Expires": str(seconds),
            "X-Amz-SignedHeaders": "host",
        }
        if credentials.token:
            signed["X-Amz-Security-Token"] = credentials.token
        request = f"{method}\n{path}\n{encode_query(signed)}\nhost:{host}\n\nhost\n{UNSIGNED}"
        signed["X-Amz-Signature"] = self._compute(credentials, now, request)
        return "&".join(
            f"{quote(name, safe=UNRESERVED)}={quote(value, safe=UNRESERVED)}" for name, value in signed.items()
        )

    def _make_scope(self, now: str) -> str:
        return f"{now[:8]}/{self._region}/{self._service}/aws4_request"

    def _compute(self, credentials: Credentials, now: str, request: str) -> str:
        """Return the signature of a request in its canonical form."""
        text = f"{ALGORITHM}\n{now}\n{self._make_scope(now)}\n{hashlib.sha256(request.encode()).hexdigest()}"
        return hmac.digest(self._derive_key(now[:8], credentials.secret_access_key), text.encode(), "sha256").hex()

    def _derive_key(self, day: str, secret: str) -> bytes:
        """Return the key of a day, which is derived once."""
        if self._key is None or self._key[0] != (day, secret):
            key = f"AWS4{secret}".encode()
            for part in (day, self._region, self._service, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._key = ((day, secret), key)
        return self._key[1]


def encode_path(path: str) -> str:
    return quote(path, safe=f"/{UNRESERVED}")


def encode_query(query: Mapping[str, str]) -> str:
    """Return a query string in the order of the signature."""
    encoded = sorted((quote(name, safe=UNRESERVED), quote(value, safe=UNRESERVED)) for name, value in query.items())
    return "&".join(f"{name}={value}" for name, value in encoded)
