"""Volcengine TOS: a bucket."""

from __future__ import annotations

from mangrove.drivers.base import DriverConfig
from mangrove.drivers.clouds.powers import LinkingCloud, ObjectStore
from mangrove.drivers.options import Options, option


class TOSOptions(Options):
    root_folder_path: str = option("/", required=True)
    bucket: str = option(required=True)
    region: str = option(required=True)
    endpoint: str = option(required=True, help="https://tos-REGION.volces.com")
    access_key_id: str = option(required=True)
    secret_access_key: str = option(required=True, secret=True)
    security_token: str = option(secret=True)
    sign_url_expire: int = option(4)


class TOS(LinkingCloud, ObjectStore):
    name = "TOS"
    Options = TOSOptions
    config = DriverConfig(default_root="/", check_status=True, direct_lookup=True)
    options: TOSOptions
    scheme = "tos"
    settings = (("disable_config_load", "true"),)
    place = ("endpoint", "region", "bucket")
    has_etags = True
    reads_if_match = True
    names_downloads = True
