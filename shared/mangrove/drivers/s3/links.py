"""Addresses from which clients read an object directly, signed for S3 or for CloudFront."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

from mangrove.core.config import Config, config
from mangrove.core.http import format_content_disposition
from mangrove.core.platform import platform
from mangrove.core.problems import StorageProblem
from mangrove.drivers.base import Link
from mangrove.drivers.s3.direct import remove_bucket, replace_host
from mangrove.drivers.s3.errors import translate_errors
from mangrove.drivers.s3.options import S3Options, parse_endpoint

MAX_LINK_SECONDS = 7 * 24 * 3600  # maximum life of a signature, in seconds
CACHED_PARAMETERS = ("response-content-disposition", "versionId", "x-etag")
"""Parameters of a link that the cache of CloudFront tells apart. S3 ignores those that begin with `x-`."""


async def make_link(
    call: Any, signer: EdgeSigner | None, options: S3Options, key: str, name: str, version_id: str
) -> Link:
    """Return the link to an object, or to a version of it."""
    hours = options.sign_url_expire if options.sign_url_expire > 0 else 4
    seconds = min(hours * 3600, MAX_LINK_SECONDS)
    disposition = format_content_disposition(name if options.add_filename_to_disposition else "")
    if signer is None:
        url = await _sign_for_bucket(call, options, key, disposition, version_id, seconds)
    else:
        url = await _sign_for_edge(call, signer, key, disposition, version_id, seconds)
    return Link(url, lifetime=seconds)


async def _sign_for_bucket(
    call: Any, options: S3Options, key: str, disposition: str, version_id: str, seconds: int
) -> str:
    with translate_errors():
        url: str = await call.sign_link(key, disposition, version_id, seconds)
    if options.custom_host:
        url = remove_bucket(url, options.bucket) if options.remove_bucket else url
        url = replace_host(url, parse_endpoint(options.custom_host) or "", options.enable_custom_host_presign)
    return url


async def _sign_for_edge(
    call: Any, signer: EdgeSigner, key: str, disposition: str, version_id: str, seconds: int
) -> str:
    """Return an address that differs when the object was replaced, so that no cache answers with the old one."""
    query = {"response-content-disposition": disposition}
    if version_id:
        query["versionId"] = version_id
    else:
        query["x-etag"] = (await call("head_object", Key=key))["ETag"].strip('"')
    with translate_errors():
        url: str = await call.run(partial(signer.sign, key, query, seconds))
    return url


class EdgeSigner:
    """The signer of links at a distribution of CloudFront, which has a domain."""

    def __init__(self, settings: Config, domain: str) -> None:
        self._domain = domain
        self._key_id = settings.download_key_id
        self._secret = settings.download_key_secret
        self._signer: Any = None

    def sign(self, key: str, query: Mapping[str, str], seconds: int) -> str:
        """Return the address of an object. The first call reads the key. Raise StorageProblem if there is none."""
        url = f"https://{self._domain}/{quote(key)}?{urlencode(query, quote_via=quote)}"
        if self._signer is None:
            self._signer = self._make_signer()
        end = datetime.fromtimestamp(int(time.time()) + seconds, UTC)
        return str(self._signer.generate_presigned_url(url, date_less_than=end))

    def _make_signer(self) -> Any:
        # imported here: most functions never sign for CloudFront
        from botocore.signers import CloudFrontSigner
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.hashes import SHA1
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        from mangrove.core.aws_calls import SECRETS, ServiceClient

        text = ServiceClient(SECRETS).call("GetSecretValue", {"SecretId": self._secret})["SecretString"]
        try:
            key = load_pem_private_key(text.encode(), None)
        except ValueError:
            key = None
        if not isinstance(key, RSAPrivateKey):
            raise StorageProblem("the secret of MANGROVE_DOWNLOAD_KEY_SECRET has no RSA key; deploy the stack again")
        # the hash that CloudFront expects unless a link names another one
        return CloudFrontSigner(self._key_id, lambda message: key.sign(message, PKCS1v15(), SHA1()))  # noqa: S303


def find_signer(options: S3Options) -> EdgeSigner | None:
    """Return the signer of links to a storage; None unless its bucket is of the deployment and has a distribution."""
    settings = config()
    domains = {settings.files_bucket: settings.download_domain, settings.staging_bucket: settings.staged_domain}
    domain = domains.get(options.bucket)
    if not domain or not platform().has_aws_role or parse_endpoint(options.endpoint) is not None:
        return None
    return None if options.access_key_id or options.custom_host else EdgeSigner(settings, domain)
