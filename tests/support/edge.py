"""A distribution of CloudFront in front of a bucket of moto."""

from __future__ import annotations

import base64
import json
import time
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from mangrove.standalone import template

SIGNATURE = ("Expires", "Signature", "Key-Pair-Id")  # parameters that CloudFront does not forward
FORWARDED = {"response-content-disposition": "ResponseContentDisposition", "versionId": "VersionId"}


class Edge:
    """A distribution: its domain, the key that it trusts, its bucket, and what it has cached."""

    def __init__(self, domain: str, key_id: str, public_key: str, store: Any, bucket: str) -> None:
        key = load_pem_public_key(public_key.encode())
        assert isinstance(key, RSAPublicKey)
        self._key = key
        self._domain, self._key_id = domain, key_id
        self._store, self._bucket = store, bucket
        policy = template.load_template()["Resources"]["DownloadCache"]["Properties"]["CachePolicyConfig"]
        parameters = policy["ParametersInCacheKeyAndForwardedToOrigin"]["QueryStringsConfig"]["QueryStrings"]
        self.parameters: set[str] = set(parameters)
        self.cached: dict[tuple[str, ...], Any] = {}

    def verify(self, url: str) -> int:
        """Return the seconds that a link is valid for. Raise InvalidSignature."""
        base, _, signature = url.partition("&Expires=")
        query = parse_qs(f"Expires={signature}", strict_parsing=True)
        assert tuple(query) == SIGNATURE and query["Key-Pair-Id"] == [self._key_id]
        expires = int(query["Expires"][0])
        condition = {"DateLessThan": {"AWS:EpochTime": expires}}
        statement = {"Statement": [{"Resource": base, "Condition": condition}]}
        text = query["Signature"][0].translate(str.maketrans("-_~", "+=/"))
        policy = json.dumps(statement, separators=(",", ":")).encode()
        self._key.verify(base64.b64decode(text), policy, PKCS1v15(), SHA1())
        return expires - int(time.time())

    def fetch(self, url: str, byte_range: str = "") -> tuple[bytes, dict[str, str]]:
        """Return the body and the headers of the answer."""
        assert self.verify(url) > 0
        parts = urlsplit(url)
        assert (parts.scheme, parts.netloc) == ("https", self._domain)
        query = {name: values[0] for name, values in parse_qs(parts.query).items() if name not in SIGNATURE}
        assert set(query) <= self.parameters, "another parameter reaches neither the cache nor the bucket"
        cache_key = (parts.path, *(f"{name}={text}" for name, text in sorted(query.items())))
        if cache_key not in self.cached:
            forwarded = {FORWARDED[name]: text for name, text in query.items() if name in FORWARDED}
            answer = self._store.get_object(Bucket=self._bucket, Key=unquote(parts.path[1:]), **forwarded)
            headers = {"content-disposition": answer["ContentDisposition"], "content-type": answer["ContentType"]}
            self.cached[cache_key] = answer["Body"].read(), headers
        body, headers = self.cached[cache_key]
        begin, _, end = byte_range.removeprefix("bytes=").partition("-")
        return (body[int(begin) : int(end) + 1] if byte_range else body), headers
