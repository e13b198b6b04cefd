"""The options of an S3 storage."""

from __future__ import annotations

from typing import Literal

from mangrove.core.problems import Problem
from mangrove.drivers.options import TRASH_HELP, Options, option


class S3Options(Options):
    root_folder_path: str = option("/", required=True)
    bucket: str = option(required=True)
    endpoint: str = option(required=True)
    region: str = option()
    access_key_id: str = option(required=True)
    secret_access_key: str = option(required=True, secret=True)
    session_token: str = option(secret=True)
    custom_host: str = option()
    enable_custom_host_presign: bool = option()
    sign_url_expire: int = option(4)
    placeholder: str = option()
    force_path_style: bool = option()
    list_object_version: Literal["", "v1", "v2"] = option("v1")
    remove_bucket: bool = option(help="Remove bucket name from path when using custom host.")
    add_filename_to_disposition: bool = option(help="Add filename to Content-Disposition header.")
    enable_direct_upload: bool = option(False)
    direct_upload_host: str = option()
    user_agent: str = option(help="Custom User-Agent for S3 requests.")
    trash_days: int = option(
        30, help=f"{TRASH_HELP}. Without versioning, files are moved into the trash one after the other."
    )


def parse_endpoint(text: str) -> str | None:
    """Return an endpoint with its scheme; None for AWS itself."""
    text = text.strip().rstrip("/")
    return None if not text else text if "://" in text else f"https://{text}"


def find_aws_options(driver: str, addition: str) -> S3Options | None:
    """Return the options of a storage on a bucket of AWS; None for another storage."""
    if driver != "S3":
        return None
    try:
        options = S3Options.parse(addition)
    except Problem:
        return None  # its status has the reason
    return options if parse_endpoint(options.endpoint) is None else None
