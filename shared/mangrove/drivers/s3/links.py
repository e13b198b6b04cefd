"""Addresses from which clients read an object directly, signed for S3 or for CloudFront."""

from __future__ import annotations

from functools import partial
from typing import Any

from mangrove.core.http import format_content_disposition
from mangrove.drivers.base import Link
from mangrove.drivers.s3.direct import remove_bucket, replace_host
from mangrove.drivers.s3.edge import EdgeSigner
from mangrove.drivers.s3.errors import translate_errors
from mangrove.drivers.s3.options import S3Options, parse_endpoint

MAX_LINK_SECONDS = 7 * 24 * 3600  # maximum life of a signature, in seconds


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
