"""Tencent COS: a bucket."""

from __future__ import annotations

from mangrove.drivers.base import DriverConfig
from mangrove.drivers.clouds.powers import LinkingCloud, ObjectStore
from mangrove.drivers.options import Options, option


class COSOptions(Options):
    root_folder_path: str = option("/", required=True)
    bucket: str = option(required=True)
    endpoint: str = option(required=True, help="https://cos.REGION.myqcloud.com")
    secret_id: str = option(required=True)
    secret_key: str = option(required=True, secret=True)
    security_token: str = option(secret=True)
    sign_url_expire: int = option(4)


class COS(LinkingCloud, ObjectStore):
    name = "COS"
    Options = COSOptions
    config = DriverConfig(default_root="/", check_status=True, direct_lookup=True)
    options: COSOptions
    scheme = "cos"
    settings = (("disable_config_load", "true"),)
    place = ("endpoint", "bucket")
    has_etags = True
    reads_if_match = True
