"""Backblaze B2: a bucket, through its own interface."""

from __future__ import annotations

from mangrove.drivers.base import DriverConfig
from mangrove.drivers.clouds.powers import ObjectStore
from mangrove.drivers.options import Options, option


class B2Options(Options):
    root_folder_path: str = option("/", required=True)
    bucket: str = option(required=True)
    bucket_id: str = option(required=True)
    application_key_id: str = option(required=True)
    application_key: str = option(required=True, secret=True)


class B2(ObjectStore):
    """Without links: what B2 signs holds for every file whose name begins with that of the file."""

    name = "B2"
    Options = B2Options
    config = DriverConfig(only_proxy=True, default_root="/", check_status=True, direct_lookup=True)
    options: B2Options
    scheme = "b2"
    place = ("bucket_id",)
