"""boto3 clients of an S3 server."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config as ClientConfig

from mangrove.drivers.s3.options import S3Options

THREADS = 16
CONNECT_SECONDS, READ_SECONDS = 3, 10


def make_client(
    session: boto3.session.Session, options: S3Options, endpoint: str | None, read_seconds: int = READ_SECONDS
) -> Any:
    """A client with the keys of a storage; `endpoint` None: AWS. Takes tens of milliseconds."""
    config = ClientConfig(
        signature_version="s3v4",
        connect_timeout=CONNECT_SECONDS,
        read_timeout=read_seconds,
        retries={"total_max_attempts": 2, "mode": "standard"},
        max_pool_connections=THREADS,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        user_agent=options.user_agent or None,
        s3={"addressing_style": "path" if options.force_path_style else "auto"},
    )
    return session.client(
        "s3",
        endpoint_url=endpoint,
        region_name=options.region or "us-east-1",
        aws_access_key_id=options.access_key_id or None,
        aws_secret_access_key=options.secret_access_key or None,
        aws_session_token=options.session_token or None,
        config=config,
    )
